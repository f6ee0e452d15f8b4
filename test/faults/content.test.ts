// What is stored of a session in Temporal: control, never content; and its size.
import { temporal } from '@temporalio/proto';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineAgent } from '../../agent/definition/define.ts';
import { logReason } from '../../store/events.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, fail, hang, type ModelAction, say, saySlowly, think } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { signals, updates } from '../../workflows/definitions.ts';
import { quiet } from '../histories/scenario.ts';
import faultAgent from './agent.ts';
import { allHistories } from './history.ts';
import { raise } from './rows.ts';
import { aroundCalls } from './sql-calls.ts';

const CANARY = 'yellowbird';
const TYPED = 'redbird';
let planted = 0;
let opened = 0;
/** A unique word, to be searched for in all histories. */
const canary = (): string => `${CANARY}${(planted += 1)}`;
const LONG = 'word '.repeat(40_000);

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    agents: [defineAgent({ ...faultAgent, prompt: `Build what is asked for. ${canary()}` })],
    settings: { sweepIntervalMs: 3_600_000 },
  });
});

/** A session whose model gives these answers, one per call; the last one is repeated. */
async function talkTo(...answers: ModelAction[][]): Promise<TestSession> {
  opened += 1;
  const before = runtime.model.requests.length;
  runtime.model.script((_request, index) => answers[Math.min(index - before, answers.length - 1)]!);
  return TestSession.open(runtime, { agent: 'faults' });
}

describe('content never enters a history', () => {
  it('W3 no text of messages, prompts, tools, providers, reasons and failures is in Temporal', async () => {
    await tools();
    await providers();
    await reasons();
    await failures();
    const typed = await talkTo([say('fine')]);
    await typed.signalWithStart(signals.cancel, { reason: TYPED });
    expect(planted).toBeGreaterThan(15);
    // Visibility lists workflows with a delay.
    const histories = await eventually(async () => {
      const found = await allHistories(runtime.temporal);
      expect(found.length).toBeGreaterThanOrEqual(opened);
      return found;
    });
    for (const history of histories) expect(wordsAround(CANARY, history)).toEqual([]);
    expect(histories.join('\n'), 'a reason in a raw signal is in the history, so the search works').toContain(TYPED);
  });
});

async function tools(): Promise<void> {
  const session = await talkTo(
    [think(canary()), say(canary()), callTool(canary(), 'echo', { words: canary() })],
    [callTool(canary(), 'stumble', { words: canary() })],
    [callTool('call_1', canary(), { words: canary() })],
    [callTool('call_1', 'pay', { amount: canary() })],
    [callTool('call_1', 'write_file', { path: `../${canary()}`, content: canary() })],
    [callTool('call_1', 'todo_complete', { name: canary() })],
    [say(canary())],
  );
  const run = await session.ended(await session.send(`${canary()} ${LONG}`));
  expect(run.state).toBe('finished');
}

async function providers(): Promise<void> {
  const refused = await talkTo([fail(400, { message: canary(), code: canary() })]);
  expect((await refused.ended(await refused.send('go'))).state).toBe('error');
  const late = await talkTo([fail(500, { message: canary(), code: canary() })], [say('fine')]);
  expect((await late.ended(await late.send('go'))).state).toBe('finished');
}

async function reasons(): Promise<void> {
  const session = await talkTo([say(canary()), hang()]);
  await raise(runtime.db, session.id, ['start_build']);
  const run = await session.send('go');
  const seq = await logReason(runtime.db, session.id, 'user', canary(), 'cancel:1/reason');
  expect(await session.command(updates.cancel, { reason_seq: seq })).toMatchObject({ cancelled: true, aborted: true });
  expect((await session.ended(run)).state).toBe('aborted');
}

/** Errors of the database may contain anything. */
async function failures(): Promise<void> {
  const words = [Object.assign(new Error(canary()), { code: '57P01' }), new Error(canary())];
  for (const failure of words) {
    const session = await talkTo([say('fine')]);
    let failed = false;
    using _hook = aroundCalls(runtime.db, {
      before: ({ name, args }) => {
        if (failed || name !== 'claim_step' || args[0] !== session.id) return;
        failed = true;
        throw failure;
      },
    });
    const { state } = await session.ended(await session.send('go'));
    expect(state).toBe('code' in failure ? 'finished' : 'error');
  }
}

describe('a history is small, whatever the length of the texts', () => {
  // The session has had a turn before, because its start, load and idle timer do not belong to the turn.
  it('W4 a plain turn: at most 11 events and 2 KB', async () => {
    const session = await talkTo([say('hello')], saySlowly(LONG, 4_000));
    await session.ended(await session.send('hello'));
    await expectCost(session, { events: 11, bytes: 2_048 });
  });

  it('W4 a tool turn: at most 23 events and 4 KB', async () => {
    const session = await talkTo([say('hello')], [callTool('call_1', 'echo', { words: LONG }, 4_000)], [say(LONG)]);
    await session.ended(await session.send('hello'));
    await expectCost(session, { events: 23, bytes: 4_096 });
  });
});

/** Expects that the next turn of a session adds at most this to its history. */
async function expectCost(session: TestSession, most: { events: number; bytes: number }): Promise<void> {
  await quiet(session);
  const { historyLength } = await session.handle.describe();
  expect((await session.ended(await session.send(LONG))).state).toBe('finished');
  await quiet(session);
  const events = await eventsSince(session, historyLength);
  const types = events.map(typeOf);
  expect(types).toContain('EVENT_TYPE_ACTIVITY_TASK_COMPLETED');
  expect(types.length, types.join(', ')).toBeLessThanOrEqual(most.events);
  const { HistoryEvent } = temporal.api.history.v1;
  const bytes = events.reduce((sum, event) => sum + HistoryEvent.encode(event).finish().length, 0);
  expect(bytes, 'bytes').toBeLessThanOrEqual(most.bytes);
}

type Event = temporal.api.history.v1.IHistoryEvent;
const typeOf = ({ eventType }: Event) => temporal.api.enums.v1.EventType[eventType!];

/**
 * The events of a history after its first ones, without the workflow tasks that a busy machine adds: those that timed out, and
 * those that only kept a local activity alive, which the next task follows at once.
 */
async function eventsSince(session: TestSession, first: number): Promise<Event[]> {
  const { events } = await session.handle.fetchHistory();
  const all = events ?? [];
  const late = new Set<number>();
  for (const [n, event] of all.entries()) {
    const isHeartbeat = all[n + 1]?.workflowTaskScheduledEventAttributes;
    const task =
      event.workflowTaskTimedOutEventAttributes ?? (isHeartbeat && event.workflowTaskCompletedEventAttributes);
    if (task) for (const id of [event.eventId, task.scheduledEventId, task.startedEventId]) late.add(Number(id));
  }
  return all.slice(first).filter(({ eventId }) => !late.has(Number(eventId)));
}

/** The occurrences of a word in a text, with their context. */
function wordsAround(word: string, text: string): string[] {
  return [...text.matchAll(new RegExp(`.{0,60}${word}.{0,20}`, 'g'))].map(([found]) => found);
}
