// What became of the changes of state of the tool `tally`.
import { expect } from 'vitest';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { draftOf } from './agent.ts';
import type { CrashCase } from './crash-cases.ts';

/** What the tools of a session changed: its keys and values, and which calls' changes were applied. */
export async function stateOf({ runtime: { db }, session: { id } }: CrashCase) {
  const values = await db.query<{ name: string; value: unknown }>(
    `SELECT state_name(scope, key) AS name, value FROM scoped_state
      WHERE owner = $1 OR key = 'tally of ' || $1 ORDER BY scope, key`,
    [id],
  );
  const events = await db.query<{ id: string; data: unknown }>(
    `SELECT data #>> '{event,id}' AS id FROM session_events WHERE session_id = $1 AND kind = 'state' ORDER BY seq`,
    [id],
  );
  return { state: values.rows.map(({ name, value }) => [name, value]), events: events.rows.map((row) => row.id) };
}

/** Expects that the changes of one call of `tally` were applied once, and that its `temp:` value is nowhere anymore. */
export async function expectTalliedOnce(the: CrashCase, parts: unknown[]): Promise<void> {
  const { toolCallId } = parts.find((part) => (part as { type: string }).type === 'tool-tally') as {
    toolCallId: string;
  };
  expect(await stateOf(the)).toEqual({
    state: [
      ['tally', 1],
      [`user:tally of ${the.session.id}`, 1],
    ],
    events: [`tool:${toolCallId}`],
  });
  expect(await tablesWith(the.runtime.db, draftOf(the.session.id))).toEqual([]);
}
