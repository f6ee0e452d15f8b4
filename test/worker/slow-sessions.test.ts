// Sessions whose rows are locked: the tasks of their workflows wait, and those of other sessions run.
import pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { createClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';

/** Far more than tasks of sessions may run at once, in the cache or not. */
const LOCKED = 30;
const SLOTS = 11;
const CACHED = 40;

const gate = new Gate();
let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    settings: { sessionCacheBytes: CACHED * 256 * 1024, sweepIntervalMs: 3_600_000 },
    async *script() {
      yield say('Once upon');
      await gate.pass();
      yield say(' a time.');
    },
  });
});

it('T5 W8 30 sessions wait for locked rows: a new one gets its first command, and a cold one its abort', async () => {
  const client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
  // So that connections are not what they wait for.
  runtime.db.options.max = 2 * LOCKED;
  const streaming = await TestSession.open(runtime);
  const run = await streaming.send('hello');
  await gate.reached;
  // The first one is evicted.
  await Promise.all((await sessions(CACHED)).map((other) => other.command(updates.abort)));
  const slow = await sessions(LOCKED);
  const fresh = await TestSession.open(runtime);

  const holder = new pg.Client({ connectionString: runtime.databaseUrl });
  await holder.connect();
  afterFile(() => holder.end());
  // Otherwise their tasks end after some seconds, and the others run then.
  for (const name of ['load_session', 'apply_command'])
    await holder.query(`ALTER FUNCTION ${name} SET lock_timeout = 0`);
  await holder.query('BEGIN');
  await holder.query('SELECT FROM chat_sessions WHERE session_id = ANY ($1) FOR UPDATE', [slow.map(({ id }) => id)]);
  const waiting = slow.map((session) => session.command(updates.abort));
  await eventually(async () => expect(await lockWaits()).toBeGreaterThan(SLOTS));

  expect(await client.commands.abort(streaming.user, streaming.id)).toMatchObject({ aborted: true });
  expect(await streaming.ended(run)).toMatchObject({ state: 'aborted' });
  expect(await client.commands.openExisting(fresh.user, fresh.id, { project_id: 'garden' })).toMatchObject({
    project_id: 'garden',
  });
  await holder.query('ROLLBACK');
  for (const outcome of await Promise.all(waiting)) expect(outcome).toMatchObject({ aborted: false });
  gate.open();
});

function sessions(count: number): Promise<TestSession[]> {
  return Promise.all(Array.from({ length: count }, () => TestSession.open(runtime)));
}

async function lockWaits(): Promise<number> {
  const sql = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return (await runtime.db.query(sql)).rowCount ?? 0;
}
