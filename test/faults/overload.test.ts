// A worker that streams as many answers as it may.
import { beforeAll, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { callTool, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from './agent.ts';

const MAX_STREAMS = 2;
/** Of a worker's eight slots, half may be held by turns that wait. */
const SLOTS = 8;
const MANY = 12;

const ping = defineTool({
  name: 'ping',
  description: 'Answers.',
  input: z.object({}),
  execute: () => Promise.resolve({ pong: true }),
});
/** A tool that changes the phase at its start needs an activity: no head start runs it. */
const build = faultAgent.tools.find(({ name }) => name === 'build_quickly')!;
const agent = defineAgent({ ...faultAgent, tools: [ping, build] });

let runtime: TestRuntime;
let client: PerdureClient;
/** Hold the answers to messages, by their text. */
const gates = new Map<string, Gate>();

beforeAll(async () => {
  const settings = { sweepIntervalMs: 500, maxStreams: MAX_STREAMS, activitySlots: SLOTS };
  runtime = await startRuntime({ agents: [agent], settings, script: answer });
  client = createClient({ database: runtime.db, bus: runtime.bus, temporal: runtime.temporal });
  afterFile(() => client.end());
});

/** A word, then, when the gate is open, a tool call; and a word after the tool. */
async function* answer(request: ChatRequest): AsyncIterable<ModelAction> {
  yield say('Well');
  if (request.messages.at(-1)?.role === 'tool') return;
  await gates.get(lastUserText(request))!.pass();
  yield callTool('call', lastUserText(request).startsWith('slots') ? 'build_quickly' : 'ping', {});
}

interface Turn {
  session: TestSession;
  run: number;
  gate: Gate;
  state(): Promise<string>;
}

async function begin(text: string, user: string): Promise<Turn> {
  const gate = new Gate();
  gates.set(text, gate);
  const session = await TestSession.open(runtime, { user, agent: 'faults' });
  const { run_seq: run } = await client.submit(user, session.id, { text });
  const state = async () => (await session.run(run)).state;
  return { session, run, gate, state };
}

/** A turn that waits, once it does. */
async function waitInLine(text: string, user: string): Promise<Turn> {
  const before = await waiting();
  const turn = await begin(text, user);
  await eventually(async () => expect(await waiting()).toBe(before + 1));
  return turn;
}

const waiting = async () => {
  const { values } = await runtime.registry.getSingleMetric('perdure_turns_waiting')!.get();
  return values[0]!.value;
};

/** Follows a turn's answer, and returns what its reader is told of its status. */
function follow({ session, run }: Turn): { told: unknown[]; ended: Promise<void> } {
  const told: unknown[] = [];
  const reading = async () => {
    for await (const chunk of client.follow(session.user, session.id, run)) {
      if (chunk.type === 'data-status') told.push(chunk.data);
    }
  };
  return { told, ended: reading() };
}

/** Once the checks of queued turns have been postponed, lets 3.5 seconds of that pass at once, and two sweeps look at them. */
async function sweptLater(turns: readonly Turn[]): Promise<void> {
  const { db } = runtime;
  const sessions = turns.map(({ session }) => session.id);
  await eventually(async () => {
    const postponed = `SELECT FROM chat_runs WHERE session_id = ANY ($1) AND check_at > created_at + interval '5 seconds'`;
    expect((await db.query(postponed, [sessions])).rowCount).toBe(turns.length);
  });
  await db.query(
    `UPDATE chat_runs SET check_at = check_at - interval '3500 milliseconds' WHERE session_id = ANY ($1)`,
    [sessions],
  );
  const queries = vi.spyOn(db, 'query');
  const sweeps = () => queries.mock.calls.filter((given) => JSON.stringify(given).includes('claim_due_runs')).length;
  // The third one begins after the second has ended.
  await eventually(() => expect(sweeps()).toBeGreaterThanOrEqual(3));
  queries.mockRestore();
}

const asked = () => runtime.model.requests.map(({ body }) => lastUserText(body));

it('Q2 a busy worker lets new turns wait in order, fair between users, and says so; those that run go on', async () => {
  const running = await Promise.all(['running 1', 'running 2'].map((text) => begin(text, 'ada')));
  await Promise.all(running.map(({ gate }) => gate.reached));
  const first = await waitInLine('first', 'ada');
  const aborted = await waitInLine('aborted', 'ada');
  const third = await waitInLine('third', 'ada');
  const other = await waitInLine('other user’s', 'bob');
  const reader = follow(other);
  await eventually(() => expect(reader.told).toHaveLength(1));
  expect(reader.told[0]).toMatchObject({ state: 'busy', position: 0, message: 'waiting for a worker' });

  await aborted.session.command(updates.abort);
  await eventually(async () => expect([await aborted.state(), await waiting()]).toEqual(['aborted', 3]));
  expect(await Promise.all([first, third, other].map(({ state }) => state()))).toEqual(['queued', 'queued', 'queued']);

  // A turn that has begun does not wait with its tool and its second step.
  running[0]!.gate.open();
  await eventually(async () => expect(await running[0]!.state()).toBe('finished'));
  for (const [next, before] of [
    [first, running[1]!],
    [other, first],
    [third, other],
  ] as const) {
    await next.gate.reached;
    if (next === other) await eventually(() => expect(reader.told).toHaveLength(2));
    before.gate.open();
  }
  third.gate.open();
  const all = [...running, first, third, other];
  await eventually(async () => {
    expect(new Set(await Promise.all(all.map(({ state }) => state())))).toEqual(new Set(['finished']));
  });
  expect(new Set(asked().slice(2))).not.toContain('aborted');
  expect([...new Set(asked())].slice(2)).toEqual(['first', 'other user’s', 'third']);
  expect(asked()).toHaveLength(2 * all.length);
  await reader.ended;
  expect(reader.told[1]).toMatchObject({ state: 'busy' });
  expect(reader.told[1]).not.toHaveProperty('message');
});

it('Q2 a worker that has room begins turns that wait in another one, and nobody wakes them meanwhile', async () => {
  const running = await Promise.all(['busy 1', 'busy 2'].map((text) => begin(text, 'ada')));
  await Promise.all(running.map(({ gate }) => gate.reached));
  // A session whose workflow the busy worker has in its cache: another one leaves its turns to that one.
  const turns = [await waitInLine('of ada', 'ada'), await waitInLine('of bob', 'bob')];
  const woken = () => runtime.registry.getSingleMetric('perdure_sweeper_wakes_total')!.get();
  const before = (await woken()).values[0]!.value;
  await sweptLater(turns);
  expect((await woken()).values[0]!.value, 'no sweeper wakes what waits').toBe(before);
  expect(await waiting()).toBe(2);

  const other = await runtime.startWorker();
  try {
    await Promise.all(turns.map(({ gate }) => gate.reached));
    await eventually(async () => expect(await waiting()).toBe(0));
    for (const { gate } of [...turns, ...running]) gate.open();
    await eventually(async () => {
      const states = await Promise.all([...turns, ...running].map(({ state }) => state()));
      expect(new Set(states)).toEqual(new Set(['finished']));
    });
    for (const text of ['of ada', 'of bob']) {
      expect(
        asked().filter((each) => each === text),
        'a call for each step',
      ).toHaveLength(2);
    }
  } finally {
    await other.stop();
  }
});

it('Q2 more turns wait than a worker has slots: tools and steps of those that run go on', async () => {
  const running = await Promise.all(['slots 1', 'slots 2'].map((text) => begin(text, 'ada')));
  await Promise.all(running.map(({ gate }) => gate.reached));
  const many: Turn[] = [];
  for (let n = 0; n < MANY; n += 1) many.push(await waitInLine(`many ${n}`, `user ${n}`));
  await eventually(async () => {
    for (const { session } of many)
      expect(await pendingOf(session), 'its activity has been scheduled').toBeGreaterThan(0);
  });
  for (const { gate } of [...running, ...many]) gate.open();
  for (const { state } of [...running, ...many]) {
    await eventually(async () => expect(await state()).toBe('finished'));
  }
  expect(asked().filter((text) => text.startsWith('many'))).toHaveLength(2 * MANY);
});

/** Number of activities that the server has for the session's workflow. */
const pendingOf = async ({ handle }: TestSession) => (await handle.describe()).raw.pendingActivities?.length ?? 0;
