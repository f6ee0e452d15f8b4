// A worker's lease lapses, or only seems to: its steps continue elsewhere at once, or not at all.
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { createPool } from '../../store/pool.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { startSystem } from '../../tools/test-kit/system.ts';
import { startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';
import faultAgent from './agent.ts';
import { EarlyTurns } from './early-turns.ts';
import { expectSound } from './sound.ts';
import { startWorkerProcess } from './worker-process.ts';

/** So long that no step of these tests is retried because of it. */
const HEARTBEAT_MS = 600_000;
/** Well above what finding a lost worker takes: where renewals are slow, a lease is up to 30 s long. */
const CONTINUES_WITHIN_MS = 60_000;
const agents = [faultAgent];
const STEP = { type: 'step-start' };
const text = (words: string) => ({ type: 'text', text: words, state: 'done' });
const INTERRUPTED = { type: 'data-interrupted', id: expect.stringMatching(/^prt_/) as string, data: {} };

/** The answer's parts once its first words are stored. */
async function firstWords(session: TestSession, run: number): Promise<string> {
  const { answer_id: answer } = await session.run(run);
  await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'first words' }]));
  return answer;
}

describe('a worker with a streaming step', () => {
  let runtime: TestRuntime;
  beforeAll(async () => {
    runtime = await startRuntime({
      agents,
      settings: { heartbeatTimeoutMs: HEARTBEAT_MS, sweepIntervalMs: 3_600_000 },
    });
    await runtime.first.stop();
  });
  const open = () => TestSession.open(runtime, { agent: 'faults' });

  it.each([
    ['killed', 'SIGKILL'],
    ['frozen', 'SIGSTOP'],
  ] as const)('T5 is %s: another worker continues the step at once, with one more model call', async (_how, signal) => {
    const call = runtime.model.requests.length;
    const late = new Gate();
    runtime.model.script((_request, index) => (index === call ? streaming(late) : [say('new words')]));
    const lost = await startWorkerProcess(runtime);
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const run = await session.send('go');
    const answer = await firstWords(session, run);
    const other = await runtime.startWorker();
    try {
      process.kill(lost.pid, signal);
      const ended = await session.ended(run, CONTINUES_WITHIN_MS);
      expect(ended).toMatchObject({ state: 'finished', fence: [1, 1, 2] });
      late.open();
      if (signal === 'SIGSTOP') {
        process.kill(lost.pid, 'SIGCONT');
        const request = await runtime.model.request(call);
        await request.ended;
        expect(request.end, 'the lost attempt ends its model call').toBe('client-closed');
      }
      expect(await session.parts(answer)).toEqual([STEP, text('first words'), INTERRUPTED, STEP, text('new words')]);
      expect(runtime.model.requests).toHaveLength(call + 2);
      await expectSound(runtime, session.id);
    } finally {
      await Promise.all([lost.stop(), other.stop()]);
    }
  });

  it('T5 is killed before its turn’s activity comes: another goes on at once, and the activity repeats nothing', async () => {
    const early = new EarlyTurns(runtime);
    const call = runtime.model.requests.length;
    const never = new Gate();
    runtime.model.script((_request, index) => (index === call ? streaming(never) : [say('new words')]));
    const lost = await startWorkerProcess(runtime);
    const session = await open();
    // Nobody wakes the workflow, so only the row knows of the turn.
    const { run, wake } = await early.accept(session, 'go');
    const answer = await firstWords(session, run);
    const other = await runtime.startWorker();
    try {
      process.kill(lost.pid, 'SIGKILL');
      const ended = await session.ended(run, CONTINUES_WITHIN_MS);
      expect(ended).toMatchObject({ state: 'finished', fence: [0, 1, 0, 1_000_000] });
      expect(await session.parts(answer)).toEqual([STEP, text('first words'), INTERRUPTED, STEP, text('new words')]);
      await wake();
      await early.untilIdle(session);
      expect(runtime.model.requests).toHaveLength(call + 2);
      await expectSound(runtime, session.id);
    } finally {
      await Promise.all([lost.stop(), other.stop()]);
    }
  });

  it('T5 is killed before it begins a turn: another begins it at once, and the turns that come later', async () => {
    const early = new EarlyTurns(runtime);
    runtime.model.script(() => [say('hello')]);
    const lost = await startWorkerProcess(runtime);
    const [session, idle] = [await open(), await open()];
    const other = await runtime.startWorker();
    try {
      // Now the other one leaves the turns of these sessions to whoever has streamed this.
      for (const { id } of [session, idle]) runtime.bus.publish({ session: id, run: 1, kind: 'stream' });
      process.kill(lost.pid, 'SIGSTOP');
      const { run } = await early.accept(session, 'go');
      expect((await session.ended(run, CONTINUES_WITHIN_MS)).state).toBe('finished');
      const next = await early.accept(idle, 'go on');
      expect((await idle.ended(next.run)).state).toBe('finished');
    } finally {
      await Promise.all([lost.stop(), other.stop()]);
    }
  });

  it('T5 heartbeats as often as the worker expects that loaded the session', async () => {
    const impatient = await runtime.startWorker({ settings: { heartbeatTimeoutMs: patient(1_000) } });
    runtime.model.script(() => [say('hello')]);
    const session = await TestSession.open(runtime, { agent: 'faults' });
    await session.ended(await session.send('hello'));
    await impatient.stop();

    const slower = await runtime.startWorker();
    const call = runtime.model.requests.length;
    runtime.model.script(async function* () {
      yield say('first words');
      await delay(patient(3_000));
      yield say(' and more');
    });
    try {
      const ended = await session.ended(await session.send('go'));
      expect(await session.parts(ended.answer_id)).toEqual([STEP, text('first words and more')]);
      expect(runtime.model.requests).toHaveLength(call + 1);
    } finally {
      await slower.stop();
    }
  });
});

it('T5 a worker is killed while its lease lasts: the step continues when its heartbeats are missed', async () => {
  const settings = { heartbeatTimeoutMs: patient(1_000), leaseMs: 30_000, sweepIntervalMs: 3_600_000 };
  const { model, db, ...runtime } = await startRuntime({ agents, settings });
  await runtime.first.stop();
  const never = new Gate();
  model.script((_request, index) => (index === 0 ? streaming(never) : [say('new words')]));
  const lost = await startWorkerProcess({ model, db, ...runtime });
  const session = await TestSession.open({ db, ...runtime }, { agent: 'faults' });
  const run = await session.send('go');
  const answer = await firstWords(session, run);
  // Its activity has come. What has none is continued when the lease has lapsed.
  await eventually(async () => expect((await session.run(run)).head_start_at).toBeNull());
  process.kill(lost.pid, 'SIGKILL');
  await lost.exited;
  await runtime.startWorker();
  expect((await session.ended(run)).state).toBe('finished');
  expect(await session.parts(answer)).toEqual([STEP, text('first words'), INTERRUPTED, STEP, text('new words')]);
  expect(model.requests).toHaveLength(2);
  const { rows } = await db.query('SELECT FROM worker_leases WHERE lost_at IS NOT NULL');
  expect(rows, 'no worker was found lost').toEqual([]);
});

it('T5 Postgres stalls and then ends all connections: no worker is lost, the model is not called again', async () => {
  const url = new URL(await freshDatabase());
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  const proxied = new URL(url);
  proxied.host = `${proxy.host}:${proxy.port}`;
  const gate = new Gate();
  const runtime = await startSystem(
    { databaseUrl: proxied.href, ...(await freshNamespace()) },
    { agents, settings: { heartbeatTimeoutMs: HEARTBEAT_MS }, script: () => streaming(gate, ' and the last') },
  );
  const db = createPool(url.href);
  afterFile(async () => {
    proxy.resume();
    await runtime.stop();
    await Promise.all([db.end(), proxy.close()]);
  });
  await runtime.startWorker();
  const session = await TestSession.open({ db, temporal: runtime.temporal }, { agent: 'faults' });
  const run = await session.send('go');
  const answer = await firstWords(session, run);
  // Now both workers judge each other.
  await eventually(async () => expect((await db.query('SELECT FROM worker_leases')).rowCount).toBe(2));
  await delay(patient(3_000));
  proxy.stall();
  await delay(2_000);
  proxy.reset();
  proxy.resume();
  await delay(7_000);
  gate.open();
  expect(await session.ended(run)).toMatchObject({
    state: 'finished',
    fence: expect.arrayContaining([1, 1, 1]) as number[],
  });
  expect(await session.parts(answer)).toEqual([STEP, text('first words and the last')]);
  expect(runtime.model.requests).toHaveLength(1);
  expect(runtime.logs.filter(({ msg }) => /lost/.test(msg))).toEqual([]);
});

async function* streaming(gate: Gate, rest?: string): AsyncIterable<ModelAction> {
  yield say('first words');
  await gate.pass();
  if (rest === undefined) yield hang();
  else yield say(rest);
}
