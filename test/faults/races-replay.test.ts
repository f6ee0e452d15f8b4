// A history in which a command outlasts its workflow task must replay; otherwise the session is stuck on its next worker.
// Random ones: test/histories/random.test.ts.
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { fetchHistory, listExecutions } from '../../worker/replay/history.ts';
import { replay } from '../../worker/replay/replay.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { updates } from '../../workflows/definitions.ts';

/** Longer than the time-out of a workflow task, shorter than that of a statement. */
const SLOW_S = 3.5;
const WAITS = 'wait for the command';

const asked = Promise.withResolvers<void>();
const answered = Promise.withResolvers<void>();

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    script: async (request) => {
      if (lastUserText(request) !== WAITS) return [say('done')];
      asked.resolve();
      await answered.promise;
      return [say('here it is')];
    },
  });
});

it('W5 a history replays in which a command outlasts its workflow task while one turn ends and another starts', async () => {
  const { db } = runtime;
  await db.query('ALTER FUNCTION cmd_open_existing(text, jsonb, text) RENAME TO open_existing_at_once');
  await db.query(`CREATE FUNCTION cmd_open_existing(p_session text, p_args jsonb, p_command_id text)
    RETURNS jsonb LANGUAGE plpgsql AS $$
    BEGIN
      IF p_args ->> 'project_id' = 'slow' THEN PERFORM pg_sleep(${SLOW_S}); END IF;
      RETURN open_existing_at_once(p_session, p_args, p_command_id);
    END $$`);
  const session = await TestSession.open(runtime);
  const first = await session.send(WAITS);
  await asked.promise;
  const second = await session.send('and then');
  const opened = session.command(updates.openExisting, { project_id: 'slow' });
  await eventually(async () => {
    const sql = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    expect((await db.query(sql)).rowCount).toBe(1);
  });
  answered.resolve();
  // The end of the turn waits for the command's lock, so both are over at about the same time.
  await Promise.all([session.ended(first), opened, session.ended(second)]);
  await expectToReplay(session.id);
});

async function expectToReplay(workflowId: string): Promise<void> {
  const executions = await listExecutions(runtime.temporal, { limit: 10, workflowId });
  const histories = await Promise.all(
    executions.map(async (execution) => ({
      name: workflowId,
      history: await fetchHistory(runtime.temporal, execution),
    })),
  );
  const bundle = await workflowBundle(path.join(import.meta.dirname, '../../node_modules/.cache/perdure'));
  const results = await replay(bundle, histories);
  expect(results.filter(({ broke }) => broke !== undefined)).toEqual([]);
  expect(results.length).toBeGreaterThan(0);
}
