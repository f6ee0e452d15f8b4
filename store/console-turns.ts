import { z } from 'zod';
import { type ConsoleTurn, consoleTurn } from '../wire/console.ts';
import { column, type Db, many } from './db.ts';
import { isoTime, timestamp } from './results.ts';
import { retry } from './status.ts';

// What the console shows of a session: its turns with their steps and tool calls, and who did them.

const { shape } = consoleTurn;
const work = shape.calls.element.shape.work.unwrap().extend({ ended_at: timestamp }).nullable();
const { element: step } = shape.steps;
/** An imported answer may have steps that say anything of these, or nothing. */
const stepRow = step.extend({
  model: step.shape.model.catch(null),
  finish_reason: step.shape.finish_reason.catch(null),
  usage: step.shape.usage.catch(null),
  work,
});
const turnRow = consoleTurn.omit({ failures: true }).extend({
  created_at: isoTime,
  started_at: isoTime.nullable(),
  finished_at: isoTime.nullable(),
  retry: retry.transform(({ at, ...rest }) => ({ ...rest, at: new Date(at).toISOString() })).nullable(),
  steps: z.array(stepRow),
  calls: z.array(shape.calls.element.extend({ called_at: timestamp, work })),
});
const failureRow = shape.failures.element.extend({ run_seq: z.number(), at: isoTime });

/** Of the message of a turn, in characters. */
const TEXT_LENGTH = 200;
/** Of one page; the event log has all. */
const MOST_FAILURES = 1_000;

const WORK = `CASE WHEN w.run_seq IS NOT NULL THEN jsonb_build_object(
    'worker', w.worker, 'fence', w.fence, 'attempt', w.attempt, 'ms', w.ms, 'first_ms', w.first_ms, 'ended_at', w.ended_at) END`;

/** The steps of an answer are in its metadata, the newest one last. */
const STEPS = `
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'step', n - 1, 'model', each -> 'model', 'finish_reason', each -> 'finish_reason', 'usage', each -> 'usage',
           'cost_usd', each -> 'cost_usd', 'work', ${WORK}) ORDER BY n), '[]')
    FROM jsonb_array_elements(a.metadata -> 'steps') WITH ORDINALITY AS step(each, n)
    LEFT JOIN work_log w ON w.session_id = r.session_id AND w.run_seq = r.seq AND w.step = n - 1 AND w.tool_call_id = ''`;

const CALLS = `
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'tool_call_id', p.tool_call_id, 'name', coalesce(p.data ->> 'toolName', substr(p.data ->> 'type', 6)),
           'state', p.tool_state, 'error', p.data ->> 'errorText', 'called_at', p.created_at, 'step', w.step,
           'child_id', (SELECT t.child_id FROM tasks t
                         WHERE t.parent_id = p.session_id AND t.tool_call_id = p.tool_call_id),
           'work', ${WORK}) ORDER BY p.index), '[]')
    FROM chat_parts p
    LEFT JOIN work_log w ON w.session_id = p.session_id AND w.run_seq = r.seq AND w.tool_call_id = p.tool_call_id
   WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.tool_call_id IS NOT NULL`;

/** The turns of a session before number `before`, newest first, and whether there are more. */
export async function readTurns(
  db: Db,
  sessionId: string,
  { before = null, limit }: { before?: number | null | undefined; limit: number },
): Promise<{ items: ConsoleTurn[]; more: boolean }> {
  const rows = await many(
    db,
    turnRow,
    `SELECT r.seq AS run_seq, r.kind, r.state, r.message_id, r.answer_id, r.model, r.variant, r.fence,
            CASE WHEN r.head_start_at > '-infinity' THEN r.head_start_worker END AS worker,
            r.tokens, r.error_code AS code, r.error_message AS message, r.retry, r.created_at, r.started_at, r.finished_at,
            r.waited_ms, coalesce(r.prompt_digest, a.metadata ->> 'system_prompt_digest') AS prompt_digest,
            (SELECT left(t.data ->> 'text', ${TEXT_LENGTH}) FROM chat_parts t
              WHERE t.session_id = r.session_id AND t.message_id = r.message_id AND t.type = 'text'
              ORDER BY t.index LIMIT 1) AS text,
            (${STEPS}) AS steps, (${CALLS}) AS calls
       FROM chat_runs r LEFT JOIN chat_messages a ON a.session_id = r.session_id AND a.id = r.answer_id
      WHERE r.session_id = $1 AND ($2::integer IS NULL OR r.seq < $2)
      ORDER BY r.seq DESC
      LIMIT $3 + 1`,
    [sessionId, before, limit],
  );
  const items = rows.slice(0, limit);
  const failures = Map.groupBy(await failuresOf(db, sessionId, items), ({ run_seq }) => run_seq);
  return {
    items: items.map((turn) =>
      Object.assign(turn, {
        failures: (failures.get(turn.run_seq) ?? []).map(({ run_seq: _run, ...failure }) => failure),
      }),
    ),
    more: rows.length > limit,
  };
}

/** What the model provider said about failed calls of these turns, oldest first. */
async function failuresOf(db: Db, sessionId: string, turns: readonly { run_seq: number }[]) {
  return many(
    db,
    failureRow,
    `SELECT seq AS event_seq, at, (data ->> 'run_seq')::integer AS run_seq, data ->> 'code' AS code,
            data ->> 'model' AS model, (data ->> 'status')::integer AS status, data ->> 'message' AS message
       FROM session_events
      WHERE session_id = $1 AND kind = 'provider_error' AND (data ->> 'run_seq')::integer = ANY ($2)
      ORDER BY (data ->> 'run_seq')::integer DESC, seq DESC LIMIT ${MOST_FAILURES}`,
    [sessionId, turns.map(({ run_seq }) => run_seq)],
  ).then((rows) => rows.toReversed());
}

/** How often a workflow has loaded a session; undefined: there is no such session. */
export async function readEpoch(db: Db, sessionId: string): Promise<number | undefined> {
  const [epoch] = await column(db, z.number(), 'SELECT epoch FROM chat_sessions WHERE session_id = $1', [sessionId]);
  return epoch;
}
