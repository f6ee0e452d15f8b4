// A worker freezes before it loads a session, and resumes after another worker has loaded it.
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, it } from 'vitest';
import { say } from '../../tools/test-kit/model-actions.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type RunningWorker, startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';
import { startDoomedWorker } from './doomed.ts';
import { Gate } from './gate.ts';
import { expectSound } from './sound.ts';

let runtime: TestRuntime;
let worker: RunningWorker;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { sweepIntervalMs: 3_600_000 } });
  worker = runtime.first;
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
    const frozen = await startDoomedWorker(runtime, { before: 'load_session', signal: 'SIGSTOP' });
    try {
      const { run, message } = await session.accept('go');
      const woken = session.wake(run, message).catch(() => {});
      await eventually(() => expectFrozen(frozen.pid), { timeout: 20_000 });
      if (terminates) {
        await session.handle.terminate();
        void session.wake(run, message).catch(() => {});
      }
      worker = await runtime.startWorker();
      await gate.reached;
      const { answer_id: answer, fence } = await session.run(run);

      // The row is locked, so that the test sees the late load start and end.
      const holder = await db.connect();
      await holder.query('BEGIN');
      await holder.query('SELECT FROM chat_sessions WHERE session_id = $1 FOR UPDATE', [session.id]);
      process.kill(frozen.pid, 'SIGCONT');
      await eventually(async () => expect(await loadsThatWait()).toBe(1), { timeout: 10_000 });
      await holder.query('COMMIT');
      holder.release();
      await eventually(async () => expect(await loadsThatWait()).toBe(0));

      const { rows } = await db.query('SELECT epoch FROM chat_sessions WHERE session_id = $1', [session.id]);
      expect(rows).toEqual([{ epoch: 1 }]);
      gate.open();
      expect(await session.ended(run)).toMatchObject({ state: 'finished', fence });
      expect(await session.parts(answer)).toMatchObject([{ type: 'step-start' }, { text: 'once only' }]);
      expect(model.requests.length - requests, 'model calls').toBe(1);
      await woken;
      await expectSound(runtime, session.id);
    } finally {
      await frozen.stop();
    }
  },
);

/** On Linux the third field of /proc/<pid>/stat is the state: T for a stopped process. */
async function expectFrozen(pid: number): Promise<void> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  expect(stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)).toBe('T');
}

async function loadsThatWait(): Promise<number> {
  const { rows } = await runtime.db.query<{ count: number }>(
    `SELECT count(*)::integer FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%load_session%'`,
  );
  return rows[0]!.count;
}
