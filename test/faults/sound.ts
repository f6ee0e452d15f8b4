import { expect } from 'vitest';
import { nextPhase, type Phase, type PhaseEvent } from '../../domain/phases.ts';
import type { Servers } from '../../tools/test-kit/session.ts';

interface EventRow {
  kind: string;
  data: { event?: PhaseEvent; from?: Phase; to?: Phase };
}

const USAGE = {
  prompt_tokens: 'input',
  completion_tokens: 'output',
  reasoning_tokens: 'reasoning',
  cache_read: 'cache_read',
  cache_write: 'cache_write',
};

/** Expects what must hold for every session when its runs have ended, whatever failed meanwhile. */
export async function expectSound({ db }: Pick<Servers, 'db'>, sessionId: string): Promise<void> {
  const one = async (sql: string) => (await db.query<Record<string, unknown>>(sql, [sessionId])).rows[0]!;
  const session = await one('SELECT *, pg_column_size(s.*) AS bytes FROM sessions s WHERE session_id = $1');
  expect(session['pending_tool'], 'no tool is pending').toBeNull();
  expect(session['bytes'], 'the row is small').toBeLessThanOrEqual(1_024);
  expect(
    await one(`SELECT count(*) FROM chat_runs WHERE session_id = $1 AND state IN ('queued', 'running', 'waiting')`),
  ).toEqual({ count: 0 });

  const sums = await one('SELECT * FROM chat_sessions WHERE session_id = $1');
  for (const [column, name] of Object.entries(USAGE)) {
    const { sum } = await one(
      `SELECT coalesce(sum((metadata #>> '{usage,${name}}')::bigint), 0)::int AS sum FROM chat_messages WHERE session_id = $1`,
    );
    expect(sums[column], `${column} is the sum of the answers'`).toBe(sum);
  }

  const { rows: doubled } = await db.query(
    `SELECT r.message_id FROM chat_runs r LEFT JOIN chat_messages m USING (session_id)
      WHERE r.session_id = $1 AND m.role = 'assistant' AND m.id = r.answer_id
      GROUP BY r.message_id HAVING count(*) > 1`,
    [sessionId],
  );
  expect(doubled, 'no message is answered twice').toEqual([]);
  const { rows: open } = await db.query(
    `SELECT p.data FROM chat_parts p JOIN chat_runs r ON r.session_id = p.session_id AND r.answer_id = p.message_id
      WHERE p.session_id = $1 AND r.state IN ('finished', 'error')
        AND p.tool_state NOT IN ('output-available', 'output-error', 'output-denied')`,
    [sessionId],
  );
  expect(open, 'no tool call is open').toEqual([]);
  expect(await one('SELECT count(*) FROM part_deltas WHERE session_id = $1')).toEqual({ count: 0 });
  await expectLegalPhases({ db }, sessionId, session['phase'] as Phase);
}

/** Expects that the logged transitions follow the table, from chatting to the phase of the row. */
async function expectLegalPhases({ db }: Pick<Servers, 'db'>, sessionId: string, end: Phase): Promise<void> {
  const { rows } = await db.query<EventRow>(
    `SELECT kind, data FROM session_events WHERE session_id = $1 AND kind = 'transition' ORDER BY seq`,
    [sessionId],
  );
  let phase: Phase = 'chatting';
  for (const { data } of rows) {
    expect(data.from, 'a transition starts in the phase in which the previous one ended').toBe(phase);
    expect(data.to, 'a transition is in the table').toBe(nextPhase(phase, data.event!));
    phase = data.to!;
  }
  expect(phase, 'the row has the last phase of the log').toBe(end);
}
