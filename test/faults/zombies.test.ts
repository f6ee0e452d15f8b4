// A timed-out attempt resumes, before and after the next attempt has taken over.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { type RunningWorker, startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent, { effects } from './agent.ts';
import { allRows } from './rows.ts';
import { expectSound } from './sound.ts';
import { aroundCalls, sessionsOf, type SqlCall } from './sql-calls.ts';
import { startWorkerProcess, WHEN_LOST } from './worker-process.ts';

let runtime: TestRuntime;
/** The worker that is running. */
let worker: RunningWorker;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { ...WHEN_LOST, sweepIntervalMs: 3_600_000 } });
  worker = runtime.first;
});

const LOST = { type: 'text', text: 'lost words', state: 'done' };
const INTERRUPTED = { type: 'data-interrupted', id: expect.stringMatching(/^prt_/) as string, data: {} };
const UNKNOWN = { state: 'output-error', errorText: expect.stringContaining('unknown') as string };
const STEP = { type: 'step-start' };
const said = (text: string) => ({ type: 'text', text, state: 'done' });

interface Zombie {
  /** The answer to the first model call. */
  first: (late: Gate) => AsyncIterable<ModelAction>;
  /** The write before which the lost attempt freezes. */
  freezesAt(call: SqlCall): boolean;
  /** The calls with which the next attempt starts and first writes. */
  claim: string;
  write: string;
  parts: unknown[];
}

const inMidStream: Zombie = {
  first: async function* (late) {
    yield say('lost words');
    await late.pass();
    yield say(' and late ones');
    yield hang();
  },
  freezesAt: ({ name, args }) => name === 'append_streams' && JSON.stringify(args).includes('late ones'),
  claim: 'claim_step',
  write: 'append_streams',
  parts: [STEP, LOST, INTERRUPTED, STEP, said('new words')],
};

const asItSettles: Zombie = {
  ...inMidStream,
  first: async function* (late) {
    yield say('lost words');
    await late.pass();
  },
  freezesAt: ({ name }) => name === 'settle_step',
};

/** Freezes an attempt, terminates its workflow, and resumes the zombie while the next attempt is held at its claim or write. */
async function play(zombie: Zombie, holdAt: 'claim' | 'write'): Promise<void> {
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const [late, frozen, held] = [new Gate(), new Gate(), new Gate()];
  const firstRequest = runtime.model.requests.length;
  runtime.model.script(async function* (request, index) {
    if (index === firstRequest) {
      yield* zombie.first(late);
      return;
    }
    // A fast answer could be over, and be written as a whole, before the first write that is to be held.
    if (zombie[holdAt] === 'append_streams') await held.reached;
    yield say(answerTo(request));
  });
  const wrote = Promise.withResolvers<void>();
  let zombies: SqlCall | undefined;
  using _hook = aroundCalls(runtime.db, {
    before: (call) => {
      if (!sessionsOf(call).includes(session.id)) return undefined;
      if (epochOf(call) === 2) return call.name === zombie[holdAt] ? held.pass() : undefined;
      if (!zombie.freezesAt(call)) return undefined;
      zombies = call;
      return frozen.pass();
    },
    after: (call) => {
      if (call === zombies) wrote.resolve();
    },
  });

  const run = await session.send('go');
  if (zombie.write === 'append_streams') {
    const { answer_id: answer } = await session.run(run);
    await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'lost words' }]));
  }
  late.open();
  await frozen.reached;
  await session.handle.terminate();
  const next = await session.send('and then?');
  await held.reached;

  const rows = await allRows(runtime.db, session.id);
  frozen.open();
  await wrote.promise;
  if (zombie === inMidStream) {
    const request = await runtime.model.request(firstRequest);
    await request.ended;
    expect(request.end, 'the zombie cancels its model call').toBe('client-closed');
  }
  expect(await allRows(runtime.db, session.id), 'the zombie changed no row').toEqual(rows);

  held.open();
  const ended = await session.ended(run);
  expect(ended.state).toBe('finished');
  expect(await session.parts(ended.answer_id)).toEqual(zombie.parts);
  expect((await session.ended(next)).state).toBe('finished');
  const seen = runtime.model.requests.slice(firstRequest + 1).map(({ body }) => JSON.stringify(body.messages));
  expect(
    seen.filter((messages) => /lost words|late ones/.test(messages)),
    'no later call contains the lost text',
  ).toEqual([]);
  await expectSound(runtime, session.id);
}

describe('a timed-out attempt resumes', () => {
  it.each([
    ['while streaming', 'before', inMidStream, 'claim'],
    ['while streaming', 'after', inMidStream, 'write'],
    ['as its step settles', 'before', asItSettles, 'claim'],
    ['as its step settles', 'after', asItSettles, 'write'],
  ] as const)('%s, %s the next claim: it changes no row', (_where, _when, zombie, holdAt) => play(zombie, holdAt));

  it('T5 as its tool ends, with its whole process', async () => {
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const first = runtime.model.requests.length;
    runtime.model.script((_request, index) =>
      index === first ? [callTool('call_1', 'pay', { amount: 5 })] : [say('new words')],
    );
    await worker.stop();
    const crashesAt = { [session.id]: { before: 'finish_tool' } };
    const frozen = await startWorkerProcess(runtime, { crashesAt, signal: 'SIGSTOP' });
    try {
      const run = await session.send('go');
      worker = await runtime.startWorker();
      const ended = await session.ended(run);
      const rows = await allRows(runtime.db, session.id);
      process.kill(frozen.pid, 'SIGCONT');
      await frozen.stop();
      expect(await allRows(runtime.db, session.id), 'the zombie changed no row').toEqual(rows);
      expect(ended.state).toBe('finished');
      const call = expect.objectContaining({ type: 'tool-pay', ...UNKNOWN }) as unknown;
      expect(await session.parts(ended.answer_id)).toEqual([STEP, call, STEP, said('new words')]);
      expect(await effects(runtime.workspaces, session.id), 'paid once').toHaveLength(1);
      await expectSound(runtime, session.id);
    } finally {
      await frozen.stop();
    }
  });

  it('T5 together with its whole process, long after its lease has lapsed', async () => {
    const session = await TestSession.open(runtime, { agent: 'faults' });
    const [late, fresh] = [new Gate(), new Gate()];
    const firstRequest = runtime.model.requests.length;
    runtime.model.script(async function* (_request, index) {
      if (index === firstRequest) yield* inMidStream.first(late);
      else {
        await fresh.pass();
        yield say('new words');
      }
    });
    await worker.stop();
    const frozen = await startWorkerProcess(runtime);
    try {
      const run = await session.send('go');
      const { answer_id: answer } = await session.run(run);
      await eventually(async () => expect(await session.parts(answer)).toMatchObject([{}, { text: 'lost words' }]));
      process.kill(frozen.pid, 'SIGSTOP');
      worker = await runtime.startWorker();
      await eventually(() => expect(runtime.model.requests.length).toBeGreaterThan(firstRequest + 1));
      await fresh.reached;
      // The new attempt ends the lost words with its first write, beside its model call.
      const interrupted = expect.objectContaining({ type: 'data-interrupted' }) as unknown;
      await eventually(async () => expect(await session.parts(answer)).toContainEqual(interrupted));
      const rows = await allRows(runtime.db, session.id);
      late.open();
      process.kill(frozen.pid, 'SIGCONT');
      const request = await runtime.model.request(firstRequest);
      await request.ended;
      expect(request.end).toBe('client-closed');
      expect(await allRows(runtime.db, session.id), 'the zombie changed no row').toEqual(rows);
      fresh.open();
      expect((await session.ended(run)).state).toBe('finished');
      expect(await session.parts(answer)).toEqual(inMidStream.parts);
      await expectSound(runtime, session.id);
    } finally {
      await frozen.stop();
    }
  });
});

function answerTo(request: ChatRequest): string {
  return lastUserText(request) === 'go' ? 'new words' : 'fine';
}

/** The epoch of the fence of a call; the fences of `append_streams` are text. */
function epochOf({ args }: SqlCall): number | undefined {
  const fence = args.map((arg) => JSON.stringify(arg)).find((json) => /^\W+\d+,\d+,\d+/.test(json));
  return fence === undefined ? undefined : Number(/\d+/.exec(fence)![0]);
}
