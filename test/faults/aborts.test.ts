// Aborts in every state of a run.
import { beforeAll, describe, expect, it } from 'vitest';
import { createClient } from '../../client/client.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, fail, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import * as names from '../../workflows/definitions.ts';
import faultAgent, { effects } from './agent.ts';
import { expectSound } from './sound.ts';
import { aroundCalls } from './sql-calls.ts';
import { startWorkerProcess, WHEN_LOST } from './worker-process.ts';

let runtime: TestRuntime;
/** Servers without a worker, except those that a test starts. */
let deserted: TestRuntime;
beforeAll(async () => {
  const options = { agents: [faultAgent], settings: { ...WHEN_LOST, sweepIntervalMs: 3_600_000 } };
  [runtime, deserted] = await Promise.all([startRuntime(options), startRuntime(options)]);
  await deserted.first.stop();
});

/** A session whose model gives these answers, one per call; the last one is repeated. */
async function talkTo(...answers: ModelAction[][]): Promise<TestSession> {
  const before = runtime.model.requests.length;
  runtime.model.script((_request, index) => answers[Math.min(index - before, answers.length - 1)]!);
  return TestSession.open(runtime, { agent: 'faults' });
}

/** A session whose next two answers pause at these gates. */
async function pausing(): Promise<{ session: TestSession; gates: [Gate, Gate] }> {
  const gates: [Gate, Gate] = [new Gate(), new Gate()];
  const before = runtime.model.requests.length;
  runtime.model.script(async function* (_request, index) {
    yield say('Once upon');
    await gates[index - before]!.pass();
    yield say(' a time.');
  });
  return { session: await TestSession.open(runtime, { agent: 'faults' }), gates };
}

/** A client of the servers, until the end of the block. */
function clientOf({ db, bus, temporal }: TestRuntime) {
  const client = createClient({ database: db, bus, temporal });
  return { client, [Symbol.asyncDispose]: () => client.end() };
}

/** Expects that the session answers the next message. */
async function expectToGoOn(session: TestSession): Promise<void> {
  runtime.model.script(() => [say('fine')]);
  const run = await session.ended(await session.send('go on'));
  expect(run.state).toBe('finished');
  expect(await session.parts(run.answer_id)).toMatchObject([{}, { text: 'fine' }]);
  await expectSound(runtime, session.id);
}

describe('an abort', () => {
  it('R4 while the run is queued: it never starts', async () => {
    const calls = runtime.model.requests.length;
    const session = await talkTo([say('never')]);
    const { run, message } = await session.accept('go');
    expect(await session.command(names.updates.abort)).toMatchObject({ aborted: true, run_seq: run });
    await session.wake(run, message);
    expect((await session.ended(run)).state).toBe('aborted');
    expect(runtime.model.requests).toHaveLength(calls);
    await expectToGoOn(session);
  });

  it('R4 between two steps: the next one does not start', async () => {
    const calls = runtime.model.requests.length;
    const session = await talkTo([callTool('call_1', 'look', { at: 'it' })], [say('never')]);
    const held = new Gate();
    using _hook = aroundCalls(runtime.db, {
      after: ({ name, args }) => (args[0] === session.id && name === 'finish_tool' ? held.pass() : undefined),
    });
    const run = await session.send('go');
    await held.reached;
    expect(await session.command(names.updates.abort)).toMatchObject({ aborted: true });
    held.open();
    expect((await session.ended(run)).state).toBe('aborted');
    expect(runtime.model.requests).toHaveLength(calls + 1);
    await expectToGoOn(session);
  });

  it('R4 in a tool: its signal fires, its call keeps its state, and the next request tells the model of the abort', async () => {
    const session = await talkTo([callTool('call_1', 'wait', {})]);
    const seq = await session.send('go');
    await eventually(async () => expect(await effects(runtime.workspaces, session.id)).toHaveLength(1));
    expect((await session.row()).pending_tool).not.toBeNull();
    await session.command(names.updates.abort);
    const run = await session.ended(seq);
    expect(run.state).toBe('aborted');
    expect(await session.parts(run.answer_id)).toMatchObject([{}, { type: 'tool-wait', state: 'input-available' }]);
    expect((await session.row()).pending_tool).toBeNull();
    await expectToGoOn(session);
    expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages)).toContain('aborted by the user');
  });

  it('R4 by the client: it is published once', async () => {
    const session = await talkTo([say('Once'), hang()]);
    const received: unknown[] = [];
    const unsubscribe = runtime.bus.subscribe((pointer) => {
      if (pointer.kind === 'abort' && pointer.session === session.id) received.push(pointer);
    });
    const client = createClient({ database: runtime.db, bus: runtime.bus, temporal: runtime.temporal });
    const calls = runtime.model.requests.length;
    const seq = await session.send('go');
    await runtime.model.request(calls);
    expect(await client.commands.abort(session.user, session.id)).toMatchObject({ aborted: true });
    expect((await session.ended(seq)).state).toBe('aborted');
    await expectToGoOn(session);
    unsubscribe();
    expect(received).toHaveLength(1);
    await client.end();
  });

  it('R5 while a step waits for its retry', async () => {
    const session = await talkTo([fail(429, { retryAfter: 60 })]);
    const run = await session.send('go');
    await eventually(async () =>
      expect(await session.handle.query(names.statusQuery)).toMatchObject({ state: 'retrying' }),
    );
    await session.command(names.updates.abort);
    expect((await session.ended(run)).state).toBe('aborted');
    await expectToGoOn(session);
  });

  it('R4 twice at once, and again after the run has ended', async () => {
    const session = await talkTo([say('Once'), hang()]);
    const run = await session.send('go');
    const [first, second] = await Promise.all([
      session.command(names.updates.abort),
      session.command(names.updates.abort),
    ]);
    expect([first, second].filter(({ aborted }) => aborted).length).toBeGreaterThanOrEqual(1);
    expect((await session.ended(run)).state).toBe('aborted');
    await eventually(async () => expect(await session.command(names.updates.abort)).toMatchObject({ aborted: false }));
    await expectToGoOn(session);
  });

  it('R4 of answer 1, as it ends: answer 2, whose message was queued, stays whole', async () => {
    await using stopper = clientOf(runtime);
    const { session, gates } = await pausing();
    const first = await session.send('one', 'first');
    const second = await session.send('two', 'second');
    await gates[0].reached;
    gates[0].open();
    await gates[1].reached;
    const late = await stopper.client.commands.abort(session.user, session.id, { message_id: 'first' });
    expect(late).toMatchObject({ aborted: false, run_seq: null });
    gates[1].open();
    const run = await session.ended(second);
    expect([(await session.run(first)).state, run.state]).toEqual(['finished', 'finished']);
    expect(await session.parts(run.answer_id)).toMatchObject([{}, { text: 'Once upon a time.' }]);
    await expectToGoOn(session);
  });

  it('R4 W8 of a queued message, before an error pauses the queue: the workflow of the closed session ends', async () => {
    const held = new Gate();
    runtime.model.script(async function* () {
      await held.pass();
      yield fail(400);
    });
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const { run: first, message } = await session.accept('one', 'first');
    const { run: second } = await session.accept('two', 'second');
    await session.wake(first, message);
    await held.reached;
    expect(await session.command(names.updates.abort, { message_id: 'second' })).toMatchObject({ run_seq: second });
    held.open();
    expect([(await session.ended(first)).state, (await session.run(second)).state]).toEqual(['error', 'aborted']);
    await eventually(async () => expect(await session.handle.query(names.snapshotQuery)).toMatchObject({ queue: [] }));
    await session.command(names.updates.close);
    await session.handle.result();
    await expectSound(runtime, session.id);
  });

  it.each([{}, { message_id: 'first' }])(
    'R4 %j that the database takes late ends nothing later, and its repeat gets the same answer',
    async (named) => {
      await using stopper = clientOf(runtime);
      const { session, gates } = await pausing();
      const first = await session.send('one', 'first');
      await gates[0].reached;
      const held = new Gate();
      using _hook = aroundCalls(runtime.db, {
        before: ({ name, args }) =>
          args[0] === session.id && name === 'apply_command' && args[1] === 'abort' ? held.pass() : undefined,
      });
      const stop = () =>
        stopper.client.commands.abort(session.user, session.id, { ...named, idempotencyKey: 'stop-1' });
      const stopping = stop();
      await held.reached;
      gates[0].open();
      await session.ended(first);
      // The worker begins the next run although the workflow still waits for the database.
      const { run_seq: second } = await stopper.client.submit(session.user, session.id, { id: 'second', text: 'two' });
      await gates[1].reached;
      held.open();
      const outcome = await stopping;
      expect(outcome).toMatchObject({ aborted: false, run_seq: null });
      expect(await stop()).toEqual(outcome);
      gates[1].open();
      expect(await session.ended(second)).toMatchObject({ state: 'finished', abort_requested_at: null });
      await expectToGoOn(session);
    },
  );

  it('R4 without a worker: it is carried out when one has started', async () => {
    deserted.model.script(() => [say('Once upon'), hang()]);
    const killed = await startWorkerProcess(deserted);
    const session = await TestSession.open(deserted, { agent: 'faults' });
    const seq = await session.send('go');
    await deserted.model.request(0);
    process.kill(killed.pid, 'SIGKILL');
    await killed.exited;
    // Without a worker the update may time out; repeated under the same id it is one abort.
    const abort = () => session.command(names.updates.abort, { command_id: 'abort-1' });
    const aborting = abort().catch(abort);
    await deserted.startWorker();
    expect(await aborting).toMatchObject({ aborted: true });
    const run = await session.ended(seq);
    expect(run.state).toBe('aborted');
    // The step may be retried before the abort is accepted, and is stopped then; after it the model is not called.
    expect(deserted.model.requests.length).toBeLessThanOrEqual(2);
    await expectSound(deserted, session.id);
  });
});
