// Histories with concurrent commands must replay; otherwise the session is stuck on its next worker.
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { fetchHistory, listExecutions } from '../../tools/scripts/histories/history.ts';
import { replay } from '../../tools/scripts/histories/replay.ts';
import { workflowBundle } from '../../worker/bundle.ts';
import { updates } from '../../workflows/definitions.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { inParallel } from './parallel.ts';
import { raise } from './rows.ts';
import { aroundCalls } from './sql-calls.ts';

const SESSIONS = 24;
/** Longer than the time-out of a workflow task, shorter than that of a statement. */
const SLOW_S = 3.5;
const WAITS = 'wait for the command';
const GREETS = 'hello';
const IDLE_MS = 2_000;
/** Longer than a workflow task is kept open without a heartbeat, and than the idle time. */
const WAIT_MS = 2_500;

const asked = Promise.withResolvers<void>();
const answered = Promise.withResolvers<void>();

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    settings: { idleCloseMs: IDLE_MS },
    script: async (request) => {
      if (lastUserText(request) === WAITS) {
        asked.resolve();
        await answered.promise;
        return [say('here it is')];
      }
      if (lastUserText(request) === GREETS) return [say('hello')];
      return request.messages.at(-1)?.role === 'tool'
        ? [say('done')]
        : [say('first'), callTool('call_1', 'build_and_deploy', { confirm_new_project: true })];
    },
  });
});

/** Concurrent commands, most of which change search attributes. */
async function storm(session: TestSession, nth: number): Promise<void> {
  await Promise.allSettled([
    session.command(updates.openExisting, { project_id: `p-${session.id}` }),
    session.command(updates.abort),
    session.command(updates.cancel),
    session.send('and another'),
    session.command(updates.publish),
    nth % 2 === 0 ? session.command(updates.close, { abort: true }) : session.command(updates.abort),
  ]);
}

it('W5 histories with concurrent commands replay', { timeout: 120_000 }, async () => {
  const ids = Array.from({ length: SESSIONS }, () => '');
  await inParallel(SESSIONS, 6, async (nth) => {
    const session = await TestSession.open(runtime);
    ids[nth] = session.id;
    const run = await session.send('build it');
    await storm(session, nth);
    await session.ended(run);
    await session.ended(await session.send('still there?'));
  });
  await expectToReplay(ids);
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
  await expectToReplay([session.id]);
});

it('W5 two commands at once that wait at the row while the idle timer fires replay', async () => {
  let waited = 0;
  const before = ({ name }: { name: string }) => {
    if (name !== 'apply_command') return undefined;
    waited += 1;
    return delay(WAIT_MS);
  };
  using _slow = aroundCalls(runtime.db, { before });
  const ids = Array.from({ length: 6 }, () => '');
  await inParallel(ids.length, ids.length, async (nth) => {
    const session = await TestSession.open(runtime);
    ids[nth] = session.id;
    await raise(runtime.db, session.id, ['start_build', 'todo_done_build']);
    await session.ended(await session.send(GREETS));
    // So that the timer fires at another moment of the commands in each session.
    await delay((nth * IDLE_MS) / ids.length);
    await Promise.allSettled([
      session.command(updates.publish),
      session.command(updates.openExisting, { project_id: `p-${session.id}` }),
    ]);
  });
  expect(waited).toBeGreaterThanOrEqual(2 * ids.length);
  await expectToReplay(ids);
});

async function expectToReplay(ids: readonly string[]): Promise<void> {
  const executions = await Promise.all(
    ids.map((workflowId) => listExecutions(runtime.temporal, { limit: 10, workflowId })),
  );
  const histories = await Promise.all(
    executions.flat().map(async (execution) => ({
      name: execution.workflowId,
      history: await fetchHistory(runtime.temporal, execution),
    })),
  );
  const bundle = await workflowBundle(path.join(import.meta.dirname, '../../node_modules/.cache/perdure'));
  const results = await replay(bundle, histories);
  expect(results.filter(({ broke }) => broke !== undefined).map(({ broke }) => broke)).toEqual([]);
  expect(results.length).toBeGreaterThan(0);
}
