// A worker freezes before it loads a session, and resumes after another worker has loaded it.
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { type RunningWorker, startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from './agent.ts';
import { loseClaims, untilItWaits } from './lost-claims.ts';
import { expectSound } from './sound.ts';
import { startWorkerProcess, WHEN_LOST } from './worker-process.ts';

let runtime: TestRuntime;
let worker: RunningWorker;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { ...WHEN_LOST, sweepIntervalMs: 3_600_000 } });
  worker = runtime.first;
  await countLoads();
});

const LOADERS: [who: string, terminates: boolean][] = [
  ['the same execution', false],
  ['the next execution', true],
];

it.each(LOADERS)(
  'S8 a load by a resumed worker does no harm after another worker has loaded %s',
  async (_what, terminates) => {
    const { db, model } = runtime;
    const session = await TestSession.open(runtime, { agent: faultAgent.id });
    const gate = new Gate();
    const requests = model.requests.length;
    model.script(async function* () {
      yield say('once');
      await gate.pass();
      yield say(' only');
    });
    await worker.stop();
    const frozen = await startWorkerProcess(runtime, {
      crashesAt: { [session.id]: { before: 'load_session' } },
      signal: 'SIGSTOP',
    });
    const wakes: Promise<unknown>[] = [];
    try {
      const { run, message } = await session.accept('go');
      // The execution that takes a wake-up may be terminated before it responds.
      const wake = () => wakes.push(session.wake(run, message).catch(() => {}));
      wake();
      await eventually(() => expectFrozen(frozen.pid));
      if (terminates) {
        await session.handle.terminate();
        wake();
      }
      worker = await runtime.startWorker();
      await gate.reached;
      const { answer_id: answer, fence } = await session.run(run);

      const loads = await loadsOf(session);
      process.kill(frozen.pid, 'SIGCONT');
      await eventually(async () => expect(await loadsOf(session)).toBeGreaterThan(loads));

      const { rows } = await db.query('SELECT epoch FROM chat_sessions WHERE session_id = $1', [session.id]);
      expect(rows).toEqual([{ epoch: 1 }]);
      gate.open();
      expect(await session.ended(run)).toMatchObject({ state: 'finished', fence });
      expect(await session.parts(answer)).toMatchObject([{ type: 'step-start' }, { text: 'once only' }]);
      expect(model.requests.length - requests, 'model calls').toBe(1);
      await expectSound(runtime, session.id);
    } finally {
      await frozen.stop();
      await Promise.all(wakes);
    }
  },
);

it('S8 an execution whose Temporal server has an earlier clock than the one before takes over its turn', async () => {
  const { db, model } = runtime;
  const before = model.requests.length;
  model.script((_request, index) => (index === before ? [say('Once'), hang()] : [say('hello')]));
  const session = await TestSession.open(runtime, { agent: faultAgent.id });
  const run = await session.send('hi');
  await model.request(before);
  // Its activity has come.
  await eventually(async () => expect((await session.run(run)).head_start_at).toBeNull());
  await session.handle.terminate();
  await db.query('UPDATE chat_sessions SET load_asked_at = load_asked_at + 3600000 WHERE session_id = $1', [
    session.id,
  ]);
  const loads = await loadsOf(session);
  const next = await session.send('and then');
  expect(await session.ended(run)).toMatchObject({ state: 'finished', fence: [2, 1, 1] });
  expect(await session.ended(next)).toMatchObject({ state: 'finished' });
  // The first one shows that Temporal must be asked, the second one knows.
  expect(await loadsOf(session)).toBe(loads + 2);
  expect(model.requests).toHaveLength(before + 3);
});

it('T5 a workflow whose claims are lost again and again waits between them, and can be aborted', async () => {
  const { db, model } = runtime;
  model.script(() => [say('hello')]);
  const session = await TestSession.open(runtime, { agent: faultAgent.id });
  const regain = await loseClaims(db, session.id);
  const [run, next] = [await session.send('hi'), await session.send('and then')];
  await untilItWaits(session);
  expect(await session.command(updates.abort)).toMatchObject({ aborted: true });
  expect((await session.ended(run)).state).toBe('aborted');
  await regain();
  expect((await session.ended(next)).state).toBe('finished');
  await expectSound(runtime, session.id);
});

/** On Linux the third field of /proc/<pid>/stat is the state: T for a stopped process. */
async function expectFrozen(pid: number): Promise<void> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  expect(stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)).toBe('T');
}

/** From now on each call of load_session that has ended is a row of `test_loads`. */
async function countLoads(): Promise<void> {
  await runtime.db.query(`
    CREATE TABLE test_loads (session_id text);
    DO $$
    DECLARE
      v_args text := (SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'load_session');
      v_names text := (SELECT array_to_string(proargnames, ', ') FROM pg_proc WHERE proname = 'load_session');
    BEGIN
      ALTER FUNCTION load_session RENAME TO uncounted_load_session;
      EXECUTE format($f$
        CREATE FUNCTION load_session(%s) RETURNS jsonb LANGUAGE plpgsql AS $body$
        BEGIN
          INSERT INTO test_loads VALUES ($1);
          RETURN uncounted_load_session(%s);
        END $body$ $f$, v_args, v_names);
    END $$`);
}

async function loadsOf({ id }: TestSession): Promise<number> {
  const { rows } = await runtime.db.query<{ count: number }>(
    'SELECT count(*)::integer FROM test_loads WHERE session_id = $1',
    [id],
  );
  return rows[0]!.count;
}
