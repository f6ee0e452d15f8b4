import { describe, expect, it, vi } from 'vitest';
import type { Fence } from '../../domain/runs.ts';
import { noteRetry } from '../../store/runs.ts';
import { type Answer, freshRows, rows, Session, textPart, toolPart } from './session.ts';

const db = await freshRows();

const fence = (ordinal: number): Fence => [0, ordinal, 1];

/** What Postgres' clock shows, in whole milliseconds. */
async function clock(): Promise<number> {
  const [row] = await rows(db, 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now');
  return Number(row!['now']);
}

const states = async (session: Session) => (await session.runs()).map((run) => run['state']);
const paused = async (session: Session) => (await session.chat())['paused_at'] !== null;

describe('order', () => {
  it('W7 runs start in the order of their messages; an early claim returns the run ahead', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    const ahead = [
      { run_seq: 1, message_id: 'one', model: null },
      { run_seq: 2, message_id: 'two', model: null },
    ];
    expect(await session.claim(3, fence(1))).toEqual({ kind: 'earlier', runs: ahead });
    expect(await session.claim(1, fence(1))).toMatchObject({ kind: 'claimed', message_id: 'one' });
    expect(await session.claim(2, fence(2))).toEqual({ kind: 'earlier', runs: ahead.slice(0, 1) });
    await session.settleStep(1, fence(1), { end: true });
    expect(await session.claim(2, fence(2))).toMatchObject({ kind: 'claimed', message_id: 'two' });
    expect(await states(session)).toEqual(['finished', 'running', 'queued']);
  });

  it('W7 exactly one of many concurrent claims succeeds', async () => {
    for (let round = 0; round < 20; round += 1) {
      const session = await Session.saying(db, 'one', 'two');
      const claims = await Promise.all([1, 2, 1, 2, 1, 2].map((run) => session.claim(run, fence(1))));
      expect(claims.filter(({ kind }) => kind === 'claimed')).toHaveLength(1);
      expect(await states(session)).toEqual(['running', 'queued']);
    }
  });

  it('W7 a finished run is not started again', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    await session.answer(1);
    await session.cancelQueued('two');
    await session.settleRun(3, 'error');
    expect(await session.claim(1, fence(9), 1)).toMatchObject({ kind: 'ended', state: 'finished', code: null });
    expect(await session.claim(2, fence(9))).toEqual({ kind: 'ended', state: 'cancelled', code: null });
    expect(await session.claim(3, fence(9))).toEqual({ kind: 'ended', state: 'error', code: 'RateLimited' });
    expect(await session.claim(4, fence(9))).toMatchObject({ kind: 'ended' });
  });
});

describe('errors', () => {
  it('R5 W7 an error pauses the queue until the next submission, and then the oldest is first', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.claim(1, fence(1));
    expect(await paused(session)).toBe(false);
    expect(await session.settleRun(1, 'error')).toEqual({ kind: 'ended', state: 'error', code: 'RateLimited' });
    expect(await session.run(1)).toMatchObject({ error_code: 'RateLimited', error_message: 'try again later' });
    expect(await paused(session)).toBe(true);
    expect(await session.claim(2, fence(2))).toEqual({ kind: 'paused' });
    expect(await session.load()).toMatchObject({ paused: true, runs: [{ run_seq: 2 }] });
    await session.say('one', { id: 'one' });
    expect(await paused(session), 'a repeated message does not resume the queue').toBe(true);
    expect(await session.say('three', { id: 'three' })).toMatchObject({ ok: true, position: 1 });
    expect(await paused(session)).toBe(false);
    expect(await session.claim(3, [1, 1, 1])).toMatchObject({ kind: 'earlier', runs: [{ run_seq: 2 }] });
    expect(await session.claim(2, [1, 2, 1])).toMatchObject({ kind: 'claimed' });
  });

  it('W7 an abort does not pause the queue', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.claim(1, fence(1));
    await session.abort();
    expect(await session.settleRun(1, 'aborted')).toEqual({ kind: 'ended', state: 'aborted', code: null });
    expect(await paused(session)).toBe(false);
    expect(await session.claim(2, fence(2))).toMatchObject({ kind: 'claimed' });
  });

  it('R4 after an abort was requested, an error ends the run as aborted', async () => {
    const session = await Session.saying(db, 'one');
    await session.claim(1, fence(1));
    await session.abort();
    expect(await session.settleRun(1, 'error')).toEqual({ kind: 'ended', state: 'aborted', code: null });
    expect(await session.run(1)).toMatchObject({ state: 'aborted', error_code: null, error_message: null });
    expect(await paused(session)).toBe(false);
  });

  it('R3 the end of a failed run gives every open tool call an outcome; an aborted one keeps their state', async () => {
    for (const [end, state] of [
      ['error', 'output-error'],
      ['aborted', 'input-available'],
    ] as const) {
      const session = await Session.at('chatting', db);
      const run = await session.runWithCalls(['call_1', 'call_2', 'call_3']);
      await session.beginTool(run, fence(2), 'call_1');
      await session.finishTool(run, fence(2), 'call_1');
      await session.beginTool(run, fence(3), 'call_2');
      await session.settleRun(run, end);
      const parts = await session.parts(run);
      expect(parts.map((part) => part['tool_state'])).toEqual(['output-available', state, state]);
      expect(parts.map((part) => (part['data'] as Answer)['state'])).toEqual(['output-available', state, state]);
      if (end === 'error')
        expect(parts[1]).toMatchObject({ data: { errorText: 'outcome unknown', input: { name: 'site' } } });
      expect((await session.row())['pending_tool']).toBeNull();
    }
  });

  it('W1 settling a run can be repeated, and returns how it ended', async () => {
    const session = await Session.saying(db, 'one');
    await session.claim(1, fence(1));
    await session.settleStep(1, fence(1), { end: true });
    const stored = await session.everything();
    for (const end of ['error', 'aborted'] as const) {
      expect(await session.settleRun(1, end)).toEqual({ kind: 'ended', state: 'finished', code: null });
    }
    expect(await session.settleRun(7, 'error')).toMatchObject({ kind: 'ended' });
    expect(await session.everything()).toEqual(stored);
  });

  it('S8 without a running run no tool is pending, whatever the end of the run', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1']);
    await session.beginTool(run, fence(2), 'call_1');
    await session.settleStep(run, fence(2), { step: 1, end: true });
    expect((await session.row())['pending_tool']).toBeNull();
  });

  it('R6 a permanent failure of a step is counted once, gives open calls an outcome, and ends the run as an error', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.claim(1, fence(1));
    const failure = { code: 'ContentFilter', message: 'try other words', toolError: 'never ran' };
    const settlement = { parts: [toolPart('call_1', 0)], usage: { input: 4, output: 1 }, end: true, failure };
    const settled = await session.settleStep(1, fence(1), settlement);
    expect(settled).toMatchObject({ kind: 'settled', state: 'error', code: 'ContentFilter' });
    const stored = await session.everything();
    expect(await session.settleStep(1, fence(1), settlement)).toEqual(settled);
    expect(await session.claim(1, [0, 1, 2])).toEqual(settled);
    expect(await session.everything()).toEqual(stored);
    expect(await session.run(1)).toMatchObject({ state: 'error', error_message: 'try other words', step: 1 });
    expect(await session.parts(1)).toMatchObject([{ tool_state: 'output-error', data: { errorText: 'never ran' } }]);
    expect(await session.chat()).toMatchObject({ total_tokens: 5, paused_at: expect.any(Date) });
    expect((await session.messages())[1]!['metadata']).not.toHaveProperty('steps.0.failure');
  });

  it('S8 the end of a queued run does not change the pending tool of the running one', async () => {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1']);
    await session.beginTool(run, fence(2), 'call_1');
    await session.say('next');
    await session.settleRun(run + 1, 'aborted');
    expect(await session.row()).toMatchObject({ pending_tool: { tool_call_id: 'call_1' } });
    expect(await states(session)).toEqual(['running', 'aborted']);
  });

  it('R5 a run that waits for a retry has that status until the next claim', async () => {
    const session = await Session.saying(db, 'one');
    await session.claim(1, fence(1));
    expect(await session.noteRetry(1, fence(1))).toBe(true);
    expect(await session.run(1)).toMatchObject({ state: 'running', retry: { attempt: 2, reason: 'rate limited' } });
    await session.claim(1, fence(2));
    expect(await session.run(1)).toMatchObject({ state: 'running', retry: null });
  });

  it('R5 the time of a retry is by Postgres’ clock, whatever the worker’s shows', async () => {
    const session = await Session.saying(db, 'one');
    await session.claim(1, fence(1));
    const claim = { sessionId: session.id, runSeq: 1, fence: fence(1) };
    vi.useFakeTimers({ toFake: ['Date'], now: 0 });
    const before = await clock();
    const noted = await noteRetry(db, claim, { attempt: 1, reason: 'busy', delayMs: 60_000 }).finally(vi.useRealTimers);
    const after = await clock();
    expect(noted).toBe(true);
    const { retry } = await session.run(1);
    expect(retry).toEqual({ attempt: 1, reason: 'busy', at: expect.any(Number) });
    const { at } = retry as { at: number };
    expect([before + 60_000 <= at, at <= after + 60_000]).toEqual([true, true]);
  });
});

describe('aborts and cancels', () => {
  it('R4 an abort applies to the running run', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.claim(1, fence(1));
    expect(await session.abort()).toMatchObject({ ok: true, aborted: true, run_seq: 1 });
    expect(await session.append(1, fence(1), [textPart(0, 'last words')])).toBe('abort');
    expect(await session.parts(1)).toHaveLength(1);
    expect(await session.settleStep(1, fence(1), { end: true })).toMatchObject({ kind: 'settled', state: 'aborted' });
    expect(await states(session)).toEqual(['aborted', 'queued']);
  });

  it('R4 an abort before the head of the queue has started applies to that run, and only once', async () => {
    const session = await Session.saying(db, 'one', 'two');
    expect(await session.abort()).toMatchObject({ aborted: true, run_seq: 1 });
    const { abort_requested_at: first } = await session.run(1);
    expect(await session.abort()).toMatchObject({ aborted: true, run_seq: 1 });
    expect(await session.run(1)).toMatchObject({ abort_requested_at: first });
    expect(await session.claim(1, fence(1))).toEqual({ kind: 'abort' });
    expect(await session.settleRun(1, 'aborted')).toMatchObject({ state: 'aborted' });
    expect(await session.claim(2, fence(1))).toMatchObject({ kind: 'claimed' });
    expect((await session.messages()).map((message) => message['hidden_at'])).toEqual([null, null]);
  });

  it('R5 an abort without a run in flight is no error, and a paused queue is not in flight', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.settleRun(1, 'error');
    expect(await session.abort()).toMatchObject({ ok: true, aborted: false, run_seq: null });
    expect(await states(session)).toEqual(['error', 'queued']);
    expect(await (await Session.at('chatting', db)).abort()).toMatchObject({ ok: true, aborted: false });
  });

  it('W7 a cancelled queued message is hidden as `cancelled` and never answered', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    expect(await session.cancelQueued('two')).toMatchObject({ ok: true, run_seq: 2 });
    expect(await states(session)).toEqual(['queued', 'cancelled', 'queued']);
    const [one, two, three] = await session.messages();
    expect([one!['hidden_at'], three!['hidden_at']]).toEqual([null, null]);
    expect(two).toMatchObject({
      hidden_at: expect.any(Date),
      metadata: { hidden_by: { cause: 'cancelled', id: 'two' } },
    });
    await session.answer(1);
    expect(await session.claim(3, fence(3))).toMatchObject({ kind: 'claimed' });
  });

  it('X10 W7 with a cancelled message goes the model that it has named, for the session and for the queue after it', async () => {
    const session = await Session.at('chatting', db);
    const named = (model: string | null) => ({ model, ...(model !== null && { metadata: { model } }) });
    const last = 'rehearsal/site-builder';
    const models = {
      one: 'a/x',
      two: 'b/y',
      between: last,
      three: null,
      four: 'c/z',
      five: 'c/z',
      six: null,
      seven: last,
    };
    for (const [id, model] of Object.entries(models)) await session.say(id, { id, ...named(model) });
    const carried = async () => [
      ...(await session.runs()).flatMap(({ state, model }) => (state === 'queued' ? [model] : [])),
      (await session.chat())['model'],
    ];
    expect(await carried()).toEqual(['a/x', 'b/y', last, 'b/y', 'c/z', 'c/z', 'c/z', last, 'c/z']);
    await session.cancelQueued('two');
    expect(await carried(), 'up to the next choice').toEqual(['a/x', last, 'a/x', 'c/z', 'c/z', 'c/z', last, 'c/z']);
    await session.cancelQueued('seven');
    expect(await carried(), 'it has changed nothing').toEqual(['a/x', last, 'a/x', 'c/z', 'c/z', 'c/z', 'c/z']);
    await session.cancelQueued('four');
    expect(await carried(), 'another message names it, too').toEqual(['a/x', last, 'a/x', 'c/z', 'c/z', 'c/z']);
    await session.cancelQueued('five');
    expect(await carried(), 'as the first one has it').toEqual(['a/x', last, 'a/x', 'a/x', 'a/x']);
    await session.cancelQueued('one');
    expect(await carried(), 'the agent’s').toEqual([last, null, null, null]);
  });

  it('X10 W7 so it is with an edit of a queued message, an answer that is given again, and a message that replaces a rewound one', async () => {
    const session = await Session.at('chatting', db);
    const model = async () => (await session.chat())['model'];
    await session.say('one', { id: 'one', model: 'a/x' });
    await session.answer(1);
    await session.say('two', { id: 'two', model: 'b/y' });
    await session.edit('two', 'zwei', { id: 'zwei', model: 'c/z' });
    expect(await model()).toBe('c/z');
    await session.cancelQueued('zwei');
    expect(await model()).toBe('a/x');
    await session.edit('one', 'eins', { id: 'eins', model: 'b/y' });
    expect(await model()).toBe('b/y');
    await session.cancelQueued('eins');
    expect(await model()).toBe('a/x');
    await session.rewind('one');
    await session.say('uno', { id: 'uno', model: 'b/y' });
    expect(await model()).toBe('b/y');
    await session.cancelQueued('uno');
    expect(await model()).toBe('a/x');
    await session.unrewind();
    expect(await session.regenerate('one', { model: 'b/y' })).toMatchObject({ ok: true });
    expect(await model()).toBe('b/y');
    await session.cancelQueued('one');
    expect(await model()).toBe('a/x');
  });

  it('X10 W7 a queued message that is edited stands at the end of the queue, with the model that it has chosen', async () => {
    const edited = async (model?: string) => {
      const session = await Session.at('chatting', db);
      await session.say('one', { id: 'one', model: 'a/x' });
      await session.answer(1);
      await session.say('two', { id: 'two', model: 'b/y' });
      await session.say('three', { id: 'three' });
      await session.say('four', { id: 'four', model: 'c/z' });
      await session.edit('two', 'zwei', { id: 'zwei', ...(model && { model }) });
      const models = async () => {
        const queued = (await session.runs()).filter(({ state }) => state === 'queued');
        return [...queued.map(({ model: each }) => each), (await session.chat())['model']];
      };
      return { session, models };
    };
    const other = await edited('d/w');
    expect(await other.models()).toEqual(['a/x', 'c/z', 'd/w', 'd/w']);
    await other.session.cancelQueued('zwei');
    expect(await other.models()).toEqual(['a/x', 'c/z', 'c/z']);
    const same = await edited();
    expect(await same.models()).toEqual(['a/x', 'c/z', 'b/y', 'b/y']);
    await same.session.cancelQueued('four');
    expect(await same.models()).toEqual(['a/x', 'b/y', 'b/y']);
    await same.session.cancelQueued('zwei');
    expect(await same.models()).toEqual(['a/x', 'a/x']);

    const varied = await Session.at('chatting', db);
    await varied.say('one', { model: 'a/x' });
    const named = { provider_id: 'a', model_id: 'x', variant: 'high' };
    await varied.say('two', { id: 'two', model: 'a/x', metadata: { model: named } });
    await varied.say('three', { model: 'b/y' });
    await varied.edit('two', 'zwei', { id: 'zwei' });
    expect((await varied.runs()).at(-1)).toMatchObject({ model: 'a/x', variant: 'high' });
  });

  it('X10 W7 an answer that is given again does not have the model of a message that it drops', async () => {
    const session = await Session.at('chatting', db);
    await session.say('one', { id: 'one', model: 'a/x' });
    await session.answer(1);
    await session.say('two', { id: 'two', model: 'b/y' });
    expect(await session.regenerate('one')).toMatchObject({ ok: true, model: 'a/x', dropped: ['two'] });
    expect(await session.chat()).toMatchObject({ model: 'a/x' });
  });

  it('W7 cancelling again changes nothing; cancelling a running, finished or unknown message is refused', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    await session.cancelQueued('three');
    const hidden = await session.messages();
    expect(await session.cancelQueued('three')).toMatchObject({ ok: true, run_seq: 3 });
    expect(await session.messages()).toEqual(hidden);
    await session.answer(1);
    await session.claim(2, fence(2));
    expect(await session.cancelQueued('one')).toMatchObject({ ok: false, code: 'NotQueued', state: 'finished' });
    expect(await session.cancelQueued('two')).toMatchObject({ ok: false, code: 'NotQueued', state: 'running' });
    expect(await session.cancelQueued('four')).toMatchObject({ ok: false, code: 'MessageNotFound' });
    expect(await states(session)).toEqual(['finished', 'running', 'cancelled']);
  });

  it('W7 X1 a queued message is taken back by the id that an edit has replaced, too', async () => {
    const session = await Session.saying(db, 'one', 'two');
    await session.edit('two', 'zwei', { id: 'zwei' });
    expect(await session.cancelQueued('two')).toMatchObject({ ok: true, run_seq: 3 });
    expect(await states(session)).toEqual(['queued', 'cancelled', 'cancelled']);
    await session.answer(1);
    expect(await session.cancelQueued('two'), 'a repeat').toMatchObject({ ok: true, run_seq: 3 });
    expect((await session.messages()).map(({ id, hidden_at }) => [id, hidden_at !== null])).toContainEqual([
      'zwei',
      true,
    ]);
  });

  it('W7 X1 a queued message whose edit is refused stays in the queue as it was', async () => {
    const session = await Session.saying(db, 'one', 'two', 'three');
    const { answer_id: answer } = (await session.claim(1, fence(1))) as { answer_id: string };
    const before = await session.everything();
    expect(await session.edit('two', 'zwei', { maxQueue: 2 })).toEqual({ ok: false, code: 'TooMany' });
    expect(await session.edit('two', 'zwei', { id: answer })).toEqual({ ok: false, code: 'MessageConflict' });
    expect(await session.everything()).toEqual(before);
    expect(await session.edit('two', 'zwei', { maxQueue: 3 })).toMatchObject({ ok: true, dropped: ['two'] });
  });

  it('W7 of a concurrent claim and cancel of the same message one wins', async () => {
    for (let round = 0; round < 30; round += 1) {
      const session = await Session.saying(db, 'one');
      const [claim, cancel] = await Promise.all([session.claim(1, fence(1)), session.cancelQueued('one')]);
      expect([claim['kind'], cancel['ok'], ...(await states(session))]).toEqual(
        cancel['ok'] ? ['ended', true, 'cancelled'] : ['claimed', false, 'running'],
      );
    }
  });
});

it.each([
  ['hours ahead', 3_600_000, 0],
  ['hours behind', -3_600_000, 5_000],
])('R7 a workflow clock that is %s moves the start of a run by at most 5 s', async (_clock, offset, elapsed) => {
  const session = await Session.saying(db, 'one');
  await session.claim(1, fence(1), 0, Date.now() + offset);
  // The claim writes both, microseconds apart unless the machine is busy.
  const { started_at, updated_at } = (await session.run(1)) as { started_at: Date; updated_at: Date };
  expect((updated_at.getTime() - started_at.getTime()) / 1_000).toBeCloseTo(elapsed / 1_000, 0);
});

it('W8 a load returns everything that a workflow needs, with a new epoch every time', async () => {
  const session = await Session.at('building', db, { project: 'prj-load' });
  const run = await session.runWithCalls(['call_1']);
  await session.say('next', { id: 'next', model: 'a/b' });
  await session.abort();
  const loaded = await session.load();
  const { started_at } = (await session.run(run)) as { started_at: Date };
  expect(loaded).toEqual({
    ...{ epoch: 1, user_id: 'ada', agent: 'site-builder', phase: 'building', project_id: 'prj-load' },
    ...{ paused: false, is_child: false, event_seq: (await session.events()).length, newest: expect.any(String) },
    runs: [
      {
        ...{ run_seq: run, state: 'running', step: 1, abort: true, model: null, started_at: expect.any(Number) },
        message_id: (await session.messages())[0]!['id'],
        open_calls: [{ tool_call_id: 'call_1', name: 'build_and_deploy' }],
      },
      {
        ...{ run_seq: run + 1, message_id: 'next', state: 'queued', step: 0, abort: false, model: 'a/b' },
        ...{ started_at: null, open_calls: [] },
      },
    ],
  });
  expect(Math.abs((loaded.runs[0]!['started_at'] as number) - started_at.getTime())).toBeLessThanOrEqual(1);
  const epochs = await Promise.all(Array.from({ length: 5 }, async () => (await session.load()).epoch));
  expect(epochs.toSorted((a, b) => a - b)).toEqual([2, 3, 4, 5, 6]);
});

it('S8 open calls are those of the newest settled step without an outcome, in their order', async () => {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_b', 'call_a']);
  const opened = async () =>
    ((await session.load()).runs[0]!['open_calls'] as Answer[]).map((one) => one['tool_call_id']);
  expect(await opened()).toEqual(['call_b', 'call_a']);
  await session.beginTool(run, [1, 1, 1], 'call_b');
  await session.finishTool(run, [1, 1, 1], 'call_b');
  expect(await opened()).toEqual(['call_a']);
  await session.beginTool(run, [2, 1, 1], 'call_a');
  await session.finishTool(run, [2, 1, 1], 'call_a', { data: { state: 'output-error', errorText: 'no' } });
  expect(await opened()).toEqual([]);
  await session.claim(run, [3, 1, 1], 1);
  await session.append(run, [3, 1, 1], [toolPart('call_c', 2), toolPart('call_d', 3)]);
  expect(await opened(), 'of a step that has not settled').toEqual([]);
});

it('Q2 a claim returns what the model sees, but not more than 32 MiB of it', async () => {
  const viewOf = async (megabytes: number) => {
    const session = await Session.saying(db, 'one', 'two');
    await session.answer(1, fence(1));
    // It compresses well, so the table stores little of it.
    const sql = `UPDATE chat_parts SET data = jsonb_build_object('type', 'text', 'text', repeat('words ', $2))
                  WHERE session_id = $1 AND message_id = 'one'`;
    await db.query(sql, [session.id, Math.floor((megabytes * 1024 ** 2) / 6)]);
    return (await session.claim(2, fence(2)))['view'];
  };
  expect(await viewOf(31)).toMatchObject([{ data: { type: 'text' } }, { data: { text: 'two' } }]);
  expect(await viewOf(33)).toBeNull();
});
