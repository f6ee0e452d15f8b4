// A worker begins a turn when its message is accepted, before Temporal asks for it (activities/head-starts/head-starts.ts).
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { PerdureClient } from '../../client/client.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { callTool, fail, hang, say } from '../../tools/test-kit/model-actions.ts';
import { type RunningWorker, startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { snapshotQuery, updates } from '../../workflows/definitions.ts';
import faultAgent, { effects } from './agent.ts';
import { EarlyTurns, said, STEP } from './early-turns.ts';
import { summaries } from './history.ts';
import { loadElsewhere } from './rows.ts';
import { expectSound } from './sound.ts';

const SESSIONS = 20;
const TURNS = 12;

let runtime: TestRuntime;
let worker: RunningWorker;
let early: EarlyTurns;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [faultAgent], settings: { shutdownGraceMs: 20_000 } });
  worker = runtime.first;
  early = new EarlyTurns(runtime);
});
afterEach(() => expect(runtime.logs.filter(({ msg }) => msg.startsWith('overtaken'))).toEqual([]));

/** A session whose workflow is in the worker's cache. */
async function warmSession(): Promise<TestSession> {
  const session = await TestSession.open(runtime, { agent: 'faults' });
  await session.ended(await session.send('hello'));
  await early.untilIdle(session);
  return session;
}

it('W1 answers before its workflow knows of the message; the activity reports what was done', async () => {
  early.script({});
  const session = await warmSession();
  const { run, wake } = await early.accept(session, 'W1 early');
  const ended = await session.ended(run);
  expect(ended).toMatchObject({ state: 'finished', fence: [1, 2, 0] });
  await wake();
  await early.untilIdle(session);
  expect(early.requestsOf('W1 early')).toHaveLength(1);
  expect(await early.partsOf(session, run)).toEqual([STEP, said('fine')]);
  expect(await summaries(runtime.temporal, session.id)).toEqual(['step 1 · openai/test', 'step 1 · openai/test']);
  await expectSound(runtime, session.id);
});

it('W1 continues with a quick tool and the next step, which one activity reports together', async () => {
  const asked = 'W1 pay';
  early.script({
    [asked]: ({ messages }) =>
      messages.at(-1)!.role === 'tool' ? [say('paid')] : [callTool('c', 'pay', { amount: 5 })],
  });
  const session = await warmSession();
  const { run, wake } = await early.accept(session, asked);
  expect((await session.ended(run)).state).toBe('finished');
  await wake();
  await early.untilIdle(session);
  expect(early.requestsOf(asked), 'a call for each step').toHaveLength(2);
  expect(await effects(runtime.workspaces, session.id)).toHaveLength(1);
  expect(await summaries(runtime.temporal, session.id)).toHaveLength(2);
  // The ordinals of what was reported are used up: later turns are not mistaken for older attempts.
  expect((await session.ended(await session.send('and now?'))).state).toBe('finished');
  await expectSound(runtime, session.id);
});

it('W1 turns with tools that no activity has adopted do not slow down the next ones', async () => {
  const asked = 'W1 look around';
  early.script({
    [asked]: ({ messages }) =>
      messages.at(-1)!.role === 'tool' ? [say('seen')] : [callTool('c', 'look', { at: 'the sea' })],
  });
  const session = await warmSession();
  for (let turn = 0; turn < 6; turn += 1) {
    const { run } = await early.accept(session, asked);
    // An activity would have claimed the last step with attempt 1.
    expect(await session.ended(run)).toMatchObject({ state: 'finished', fence: [1, 4, 0] });
  }
  await expectSound(runtime, session.id);
});

it('W1 a tool that takes longer has an activity of its own', async () => {
  const asked = 'W1 linger';
  early.script({
    [asked]: ({ messages }) => (messages.at(-1)!.role === 'tool' ? [say('done')] : [callTool('c', 'linger', {})]),
  });
  const session = await warmSession();
  const { run, wake } = await early.accept(session, asked);
  await wake();
  expect((await session.ended(run)).state).toBe('finished');
  await early.untilIdle(session);
  expect(await effects(runtime.workspaces, session.id)).toHaveLength(2);
  expect(await summaries(runtime.temporal, session.id)).toContain('tool linger');
  expect(early.requestsOf(asked)).toHaveLength(2);
});

it('S5 a tool that changes the phase at its start is run by an activity of its own, at once', async () => {
  const asked = 'S5 build';
  early.script({
    [asked]: ({ messages }) =>
      messages.at(-1)!.role === 'tool' ? [say('built')] : [callTool('c', 'build_quickly', {})],
  });
  const session = await warmSession();
  const { run, wake } = await early.accept(session, asked);
  await eventually(async () => expect((await session.run(run)).step).toBe(1));
  // The activity waits for no head start.
  expect((await session.run(run)).head_start_at).toBe(-Infinity);
  await wake();
  expect((await session.ended(run)).state).toBe('finished');
  await early.untilIdle(session);
  expect(early.requestsOf(asked)).toHaveLength(2);
  expect(await summaries(runtime.temporal, session.id)).toContain('tool build_quickly');
});

it('W1 begins each run once, whatever is announced', async () => {
  early.script({});
  const session = await warmSession();
  const { run, wake } = await early.accept(session, 'W1 once');
  for (const announced of [run, run, 1]) runtime.bus.publish({ session: session.id, run: announced, kind: 'accepted' });
  await session.ended(run);
  await wake();
  await early.untilIdle(session);
  expect(early.requestsOf('W1 once')).toHaveLength(1);
});

it('Q1 many sessions at once: one model call for each message, all answered', async () => {
  early.script({});
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, warmSession));
  await Promise.all(
    sessions.map(async (session) => {
      for (const text of ['one', 'two']) {
        const { run, wake } = await early.accept(session, `${text} of ${session.id}`);
        const waking = wake();
        expect((await session.ended(run)).state).toBe('finished');
        await waking;
      }
      await early.untilIdle(session);
      expect(early.requestsOf(`one of ${session.id}`)).toHaveLength(1);
      expect(early.requestsOf(`two of ${session.id}`)).toHaveLength(1);
    }),
  );
});

it('W7 turns back to back, faster than Temporal: all are answered, and none is made twice', async () => {
  early.script({});
  const { db, temporal, bus } = runtime;
  const client = new PerdureClient({ database: db, temporal, bus });
  const sessions = await Promise.all(Array.from({ length: 4 }, warmSession));
  await Promise.all(
    sessions.map(async (session) => {
      const texts = Array.from({ length: TURNS }, (_, n) => `turn ${n} of ${session.id}`);
      for (const text of texts) {
        const { run_seq } = await client.submit(session.user, session.id, { text });
        const types = [];
        for await (const { type } of client.follow(session.user, session.id, run_seq)) types.push(type);
        expect(types.at(-1)).toBe('finish');
      }
      await early.untilIdle(session);
      for (const text of texts) expect(early.requestsOf(text)).toHaveLength(1);
      await expectSound(runtime, session.id);
    }),
  );
  await client.end();
});

it('W6 what turns did that were over before their wake-ups, the workflow hears with the last of them', async () => {
  early.script({
    'W6 build': ({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? [say('ok')]
        : [callTool('c', 'build_and_deploy', { confirm_new_project: true })],
    'W6 built': ({ messages }) =>
      messages.at(-1)!.role === 'tool' ? [say('ok')] : [callTool('c', 'todo_complete', { name: 'build' })],
  });
  const { db, temporal, bus } = runtime;
  const client = new PerdureClient({ database: db, temporal, bus });
  const session = await warmSession();
  for (const text of ['W6 build', 'W6 built', 'one', 'two']) {
    if (text === 'W6 built') await early.untilIdle(session);
    const { run_seq } = await client.submit(session.user, session.id, { text });
    expect((await session.ended(run_seq)).state).toBe('finished');
  }
  await eventually(async () => {
    expect(await session.handle.query(snapshotQuery)).toMatchObject({ phase: 'verifying', run: null });
  });
  await expectSound(runtime, session.id);
  await client.end();
});

it('W8 a session that is closed before its workflow hears of the last turn stays closed', async () => {
  early.script({});
  const { db, temporal } = runtime;
  const asked = vi.spyOn(db, 'query');
  // The client hears what the test says: that the turns are over.
  const bus = createMemoryBus();
  const client = new PerdureClient({ database: db, temporal, bus });
  const session = await warmSession();
  const turn = async (text: string) => {
    const { run_seq: run } = await client.submit(session.user, session.id, { text });
    bus.publish({ session: session.id, run, kind: 'stream', over: true });
    runtime.bus.publish({ session: session.id, run, kind: 'accepted' });
    await session.ended(run);
  };
  await turn('told at once');
  await eventually(async () => expect(await summaries(temporal, session.id)).toHaveLength(2));
  await early.untilIdle(session);
  await turn('bye');
  await client.commands.close(session.user, session.id);
  await eventually(async () => {
    const texts = asked.mock.calls.map(([query]) => (query as unknown as { text?: string }).text ?? '');
    expect(
      texts.filter((text) => text.includes('closed_at IS NULL FROM')),
      'asked before telling',
    ).not.toEqual([]);
    expect((await session.handle.describe()).status.name).toBe('COMPLETED');
  });
  asked.mockRestore();
  await client.end();
});

it('W1 a temporary failure of the provider is reported, and the workflow tries again', async () => {
  const asked = 'W1 retry';
  early.script({ [asked]: () => (early.requestsOf(asked).length === 1 ? [fail(503)] : [say('at last')]) });
  const session = await warmSession();
  const { run, wake } = await early.accept(session, asked);
  await eventually(() => expect(early.requestsOf(asked)).toHaveLength(1));
  await wake();
  expect((await session.ended(run)).state).toBe('finished');
  expect(early.requestsOf(asked)).toHaveLength(2);
});

describe('while the model answers', () => {
  it('S5 an abort before the workflow is woken stops it', async () => {
    early.script({ 'S5 hang': () => [say('some words'), hang()] });
    const session = await warmSession();
    const { run, wake } = await early.accept(session, 'S5 hang');
    await eventually(async () => expect(await early.partsOf(session, run)).toMatchObject([{}, { text: 'some words' }]));
    await session.command(updates.abort);
    const [request] = early.requestsOf('S5 hang');
    await request!.ended;
    expect(request!.end).toBe('client-closed');
    await wake();
    expect((await session.ended(run)).state).toBe('aborted');
    expect(early.requestsOf('S5 hang')).toHaveLength(1);
  });

  it('W4 a load by another execution does not stop it: its outcome counts', async () => {
    const gate = new Gate();
    early.script({
      'W4 load': async function* () {
        yield say('first words');
        await gate.pass();
        yield say(', last words');
      },
    });
    const session = await warmSession();
    const { run, wake } = await early.accept(session, 'W4 load');
    await gate.reached;
    await loadElsewhere(runtime.db, session.id);
    await wake();
    gate.open();
    expect((await session.ended(run)).state).toBe('finished');
    await early.untilIdle(session);
    expect(early.requestsOf('W4 load')).toHaveLength(1);
    expect(await early.partsOf(session, run)).toEqual([STEP, said('first words, last words')]);
  });

  it('W7 the sweeper wakes a workflow that is never woken', async () => {
    const gate = new Gate();
    early.script({
      'W7 asleep': async function* () {
        yield say('words');
        await gate.pass();
      },
    });
    const session = await warmSession();
    const { run } = await early.accept(session, 'W7 asleep');
    await eventually(async () => {
      expect(await session.handle.query(snapshotQuery)).toMatchObject({ run: { run_seq: run } });
    });
    await eventually(async () => expect((await session.run(run)).head_start_at).toBeNull());
    gate.open();
    expect((await session.ended(run)).state).toBe('finished');
    expect(early.requestsOf('W7 asleep')).toHaveLength(1);
  });
});

describe('its activity reaches another worker', () => {
  it.each(['a step', 'a tool call'])('W1 %s is neither repeated nor interrupted', async (unit) => {
    const asked = `W1 elsewhere, ${unit}`;
    const gate = new Gate();
    early.script({
      [asked]: async function* ({ messages }) {
        if (messages.at(-1)!.role === 'tool') yield say('done');
        else if (unit === 'a tool call') yield callTool('c', 'linger', {});
        else {
          yield say('first words');
          await gate.pass();
          yield say(', last words');
        }
      },
    });
    const session = await warmSession();
    const { run, wake } = await early.accept(session, asked);
    if (unit === 'a step') await gate.reached;
    else await eventually(async () => expect(await effects(runtime.workspaces, session.id)).toHaveLength(1));
    // The stopping worker gives its workflows away, and waits for what it has begun.
    const stopped = worker.stop();
    worker = await runtime.startWorker();
    await wake();
    await eventually(async () => {
      expect(await session.handle.query(snapshotQuery)).toMatchObject({ run: { run_seq: run } });
    });
    gate.open();
    expect((await session.ended(run)).state).toBe('finished');
    await stopped;
    await early.untilIdle(session);
    const parts = await early.partsOf(session, run);
    if (unit === 'a step') expect(parts).toEqual([STEP, said('first words, last words')]);
    else expect(parts).toMatchObject([STEP, { state: 'output-available' }, STEP, said('done')]);
    expect(early.requestsOf(asked)).toHaveLength(unit === 'a step' ? 1 : 2);
    await expectSound(runtime, session.id);
  });
});
