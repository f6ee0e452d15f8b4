import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Fence } from '../../domain/runs.ts';
import { keepCount, windowToCount } from '../../store/compaction.ts';
import { readSession } from '../../store/sessions.ts';
import { viewMessages } from '../../store/view-messages.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { compact, type Paid, prune, summarize } from './compacting.ts';
import { call, freshRows, type Row, Session, textPart } from './session.ts';

const db = await freshRows();

const KEYS = ['input', 'output', 'reasoning', 'cache_read', 'cache_write'] as const;
type Numbers = Record<(typeof KEYS)[number], number>;

const sum = (usages: readonly Partial<Numbers>[]): Numbers =>
  Object.fromEntries(
    KEYS.map((key) => [key, usages.reduce((total, usage) => total + (usage[key] ?? 0), 0)]),
  ) as Numbers;

/** A session's expected sums, computed from its messages. */
function recompute(messages: readonly Row[]): Row {
  const answers = messages
    .filter((message) => message['role'] === 'assistant')
    .map((message) => message['metadata'] as Row);
  const total = sum(answers.map((metadata) => (metadata['usage'] as Numbers | undefined) ?? {}));
  const calls = answers.flatMap(
    ({ steps = [], discarded = [] }) => [steps, discarded].flat() as { cost_usd?: number }[],
  );
  const costs = calls.flatMap(({ cost_usd }) => (typeof cost_usd === 'number' ? [cost_usd] : []));
  return {
    prompt_tokens: total.input,
    completion_tokens: total.output,
    reasoning_tokens: total.reasoning,
    cache_read: total.cache_read,
    cache_write: total.cache_write,
    total_tokens: KEYS.reduce((all, key) => all + total[key], 0),
    cost_usd: costs.length === 0 ? null : costs.reduce((all, cost) => all + cost, 0),
  };
}

type Calls = { usage?: Numbers } & Partial<Record<'steps' | 'discarded', { usage: Numbers }[]>>;

const count = fc.nat({ max: 2 ** 31 });
const step = fc.record({
  usage: fc.record(Object.fromEntries(KEYS.map((key) => [key, count])), { requiredKeys: [] }),
  // Whole numbers of cents in binary, so that sums are exact on both sides.
  cost: fc.option(fc.nat({ max: 1000 }).map((n) => n / 128)),
  sentAgain: fc.boolean(),
  // It comes after an answer that was whole and is no step.
  isSecond: fc.boolean(),
});
const turn = fc.record({
  steps: fc.array(step, { maxLength: 4 }),
  end: fc.constantFrom('finished', 'aborted', 'error', 'cancelled', 'lost and claimed again'),
  hidden: fc.boolean(),
});

/** On an answer that is no step. */
function spentOn(usage: Partial<Numbers>, cost: number | null) {
  return { usage, model: 'test/model', finish_reason: 'error', ...(cost !== null && { cost_usd: cost }) };
}

it('U2 the sums of a session are those of its messages, whatever happened to its turns', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 6 }), async (turns) => {
      const session = await Session.at('chatting', db);
      let ordinal = 0;
      const spent: Partial<Numbers>[] = [];
      for (const { steps, end, hidden } of turns) {
        const { run_seq: run } = (await session.say('go on')) as { run_seq: number };
        for (const [n, { usage, cost, sentAgain, isSecond }] of (end === 'cancelled' ? [] : steps).entries()) {
          const fence: Fence = [0, (ordinal += 1), 1];
          await session.claim(run, fence, n);
          await session.append(run, fence, [textPart(n, 'words')]);
          if (isSecond) {
            for (const _ of sentAgain ? [1, 2] : [1]) await session.discard(run, fence, spentOn(usage, cost));
            spent.push(usage);
          }
          const settlement = {
            step: n,
            nextIndex: n + 1,
            usage,
            cost,
            end: end === 'finished' && n === steps.length - 1,
          };
          const lost = end === 'lost and claimed again';
          if (lost) await session.claim(run, [0, ordinal, 2], n);
          const writer: Fence = lost ? [0, ordinal, 2] : fence;
          if (lost) expect(await session.settleStep(run, fence, settlement)).toEqual({ kind: 'lost' });
          await session.settleStep(run, writer, settlement);
          if (sentAgain) await session.settleStep(run, writer, settlement);
          spent.push(usage);
        }
        const { message_id, answer_id } = await session.run(run);
        if (end === 'cancelled') await session.cancelQueued(message_id as string);
        else await session.settleRun(run, end === 'error' ? 'error' : 'aborted');
        if (hidden)
          await db.query('UPDATE chat_messages SET hidden_at = now() WHERE session_id = $1 AND id = $2', [
            session.id,
            answer_id,
          ]);
      }
      const { prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens, cost_usd } =
        await session.chat();
      const messages = await session.messages();
      const stored = { prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens };
      expect({ ...stored, cost_usd: cost_usd === null ? null : Number(cost_usd) }).toEqual(recompute(messages));
      const { input, output, reasoning, ...cache } = sum(spent);
      expect(stored).toMatchObject({
        prompt_tokens: input,
        completion_tokens: output,
        reasoning_tokens: reasoning,
        ...cache,
      });
      for (const { role, metadata } of messages) {
        const { usage, steps = [], discarded = [] } = metadata as Calls;
        if (role === 'assistant' && usage) expect(usage).toEqual(sum([...steps, ...discarded].map((one) => one.usage)));
      }
    }),
    cases(60),
  );
});

it('U1 a step stores its five numbers, its model and its finish reason, and nothing else is summed', async () => {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  await session.claim(1, [0, 1, 1]);
  const usage = { input: 10, output: 5, total: 15, cost: 3 };
  await session.settleStep(1, [0, 1, 1], { usage, cost: null, end: true });
  const five = { input: 10, output: 5, reasoning: 0, cache_read: 0, cache_write: 0 };
  const [, answer] = await session.messages();
  expect(answer!['metadata']).toMatchObject({
    usage: five,
    steps: [{ usage: five, model: 'test/model', finish_reason: 'stop' }],
  });
  expect((answer!['metadata'] as { steps: Row[] }).steps[0]).not.toHaveProperty('tokens');
  expect(await session.chat()).toMatchObject({ total_tokens: 15, cost_usd: null });
  expect(await session.run(1)).toMatchObject({ tokens: 1, step: 1, state: 'finished' });
});

const at = fc.nat();
const paid = fc.record({
  usage: step.map(({ usage }) => usage),
  cost: step.map(({ cost }) => cost),
  isUsed: fc.boolean(),
});
/** What comes before the first step of a turn. */
const made = fc.option(fc.oneof(paid, fc.constant('prune' as const)));
const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ does: fc.constant('say' as const), at, turn }) },
  fc.record({ does: fc.constantFrom('edit' as const, 'regenerate' as const), at, turn }),
  fc.record({ does: fc.constant('say' as const), at, turn, made }),
  fc.record({ does: fc.constant('compact' as const), at, paid }),
  fc.record({
    does: fc.constantFrom('rewind' as const, 'unrewind' as const, 'branch' as const, 'go on in the branch' as const),
    at,
  }),
);

type Answered = Partial<Record<'steps' | 'discarded', { usage: Partial<Numbers> }[]>>;

interface Steps {
  steps: readonly { usage: Partial<Numbers>; cost: number | null; isSecond?: boolean }[];
  end: string;
}

/** Plays the open run of a session to its end, with the steps of a turn. */
async function play(session: Session, { steps, end }: Steps, first: Paid | 'prune' | null = null) {
  const run = (await session.runs()).find(({ state }) => state === 'queued')?.['seq'] as number | undefined;
  if (run === undefined) return;
  if (first === 'prune') await prune(session, run, [0, run * 10, 1]);
  else if (first !== null) await summarize(session, run, [0, run * 10, 1], first);
  for (const [n, { usage, cost, isSecond = false }] of steps.entries()) {
    const fence: Fence = [0, run * 10 + 1 + n, 1];
    await session.claim(run, fence, n);
    await session.append(run, fence, [textPart(n, 'words')]);
    if (isSecond) await session.discard(run, fence, spentOn(usage, cost));
    const { cache_read: _read = 0, ...counted } = usage;
    const tokens = Object.values(counted).reduce((all, each) => all + each, 0);
    await session.settleStep(run, fence, {
      step: n,
      nextIndex: n + 1,
      usage,
      cost,
      tokens,
      end: n === steps.length - 1,
    });
  }
  await session.settleRun(run, end === 'error' ? 'error' : 'aborted');
}

it('U2 the sums of sessions, branches and runs are those of their messages, through rewinds, edits, new answers, compactions and prunes', async () => {
  const sizes = new Set<number>();
  const kinds = new Set<unknown>();
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 3, maxLength: 14, size: 'max' }), async (actions) => {
      let session = await Session.at('chatting', db);
      const all = [session];
      for (const each of actions) {
        const messages = await session.messages();
        const chosen = (messages[each.at % Math.max(1, messages.length)]?.['id'] as string | undefined) ?? 'none';
        if (each.does === 'say') await session.say('go on');
        if (each.does === 'edit') await session.edit(chosen, `edited ${each.at}`);
        if (each.does === 'regenerate') await session.regenerate(chosen);
        if (each.does === 'compact') await compact(session, each.paid);
        if ('turn' in each) await play(session, each.turn, 'made' in each ? each.made : null);
        if (each.does === 'rewind') await session.rewind(chosen);
        if (each.does === 'unrewind') await session.unrewind();
        if (each.does !== 'branch' && each.does !== 'go on in the branch') continue;
        const { session_id: copy } = await session.apply('branch', { from_message_id: chosen });
        if (typeof copy !== 'string') continue;
        const branch = new Session(db, copy, session.user);
        all.push(branch);
        if (each.does === 'go on in the branch') session = branch;
      }
      sizes.add(all.length);
      for (const one of all) {
        const expected = recompute(await one.messages());
        const { cost_usd, ...chat } = await one.chat();
        const cost = cost_usd === null ? null : Number(cost_usd);
        expect({ ...Object.fromEntries(Object.keys(expected).map((key) => [key, chat[key]])), cost_usd: cost }).toEqual(
          expected,
        );
        for (const { type } of await one.parts()) kinds.add(type);
        const answers = new Map((await one.messages()).map(({ id, metadata }) => [id, metadata as Answered]));
        for (const { answer_id, tokens, kind } of await one.runs()) {
          if (kind !== 'turn') continue;
          const { steps = [], discarded = [] } = answers.get(answer_id) ?? {};
          const { input, output, reasoning, cache_write } = sum([...steps, ...discarded].map((s) => s.usage));
          expect(tokens).toBe(input + output + reasoning + cache_write);
        }
      }
    }),
    cases(30),
  );
  expect(Math.max(...sizes), 'branches').toBeGreaterThan(1);
  expect([...kinds]).toEqual(expect.arrayContaining(['data-compaction', 'data-prune']));
});

it('U4 the window in use is the latest visible step, and unknown after a branch until a step reports', async () => {
  const session = await Session.at('chatting', db);
  const windowOf = async ({ id, user }: Session) => (await readSession(db, user, id))?.window;
  expect(await windowOf(session)).toBeNull();
  const usage = { input: 10, output: 5, reasoning: 4, cache_read: 80, cache_write: 1 };
  const answer = async (one: Session, factor: number) => {
    const { message_id } = await one.say('go on');
    const steps = [
      { usage, cost: null },
      { usage: { ...usage, input: 10 * factor }, cost: null },
    ];
    await play(one, { steps, end: 'finished' });
    return message_id as string;
  };
  await answer(session, 2);
  expect(await windowOf(session), 'the last step, not the sum').toEqual({ model: 'test/model', tokens: 110 });
  const second = await answer(session, 5);
  expect(await windowOf(session)).toMatchObject({ tokens: 140 });
  await session.rewind(second);
  expect(await windowOf(session), 'rewound').toMatchObject({ tokens: 110 });
  await session.unrewind();
  expect(await windowOf(session), 'counted anew').toMatchObject({ tokens: null });
  const { session_id: copy } = await session.apply('branch', { from_message_id: second });
  const branch = new Session(db, copy as string, session.user);
  expect(await windowOf(branch)).toMatchObject({ tokens: null });
  await answer(branch, 7);
  expect(await windowOf(branch)).toMatchObject({ tokens: 160 });
});

it('U4 what was counted is kept unless an event was appended since, until messages are hidden or a step is settled', async () => {
  const session = await Session.at('chatting', db);
  for (const _ of [1, 2]) {
    await session.say('go on');
    await play(session, { steps: [{ usage: { input: 10 }, cost: null }], end: 'finished' });
  }
  const windowOf = async () => (await readSession(db, session.user, session.id))!.window;
  const [first, second] = (await session.messages())
    .filter(({ role }) => role === 'user')
    .map(({ id }) => id as string);
  expect(await windowToCount(db, session.id), 'a step has reported it').toBeUndefined();
  await session.rewind(second!);
  await session.unrewind();
  const { event_seq: eventSeq, view } = (await windowToCount(db, session.id))!;
  expect(viewMessages(view).map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  await call(db, 'keep_prompt', [session.id, 'ab', ['Be kind.']]);
  await db.query(
    `UPDATE chat_messages SET metadata = metadata || '{"system_prompt_digest": "of an import"}' WHERE session_id = $1`,
    [session.id],
  );
  expect(await windowToCount(db, session.id)).toMatchObject({ sections: null });
  await keepCount(db, session.id, { eventSeq: eventSeq - 1, tokens: 7 });
  expect(await windowOf()).toMatchObject({ tokens: null });
  await keepCount(db, session.id, { eventSeq, tokens: 7 });
  expect(await windowOf()).toEqual({ model: 'test/model', tokens: 7 });
  expect(await windowToCount(db, session.id), 'it is known').toBeUndefined();
  await session.rewind(first!);
  expect(await windowOf()).toBeNull();
  await session.unrewind();
  const { event_seq: newest } = (await windowToCount(db, session.id))!;
  await keepCount(db, session.id, { eventSeq: newest, tokens: 8 });
  expect(await windowOf()).toMatchObject({ tokens: 8 });
  const { run_seq: run } = (await session.say('go on')) as { run_seq: number };
  const fence: Fence = [0, run * 10 + 1, 1];
  await session.claim(run, fence, 0);
  await session.append(run, fence, [textPart(0, 'words')]);
  await session.discard(run, fence, spentOn({ input: 30 }, null));
  expect(await windowOf(), 'an answer that is no step').toMatchObject({ tokens: 8 });
  await session.settleStep(run, fence, { step: 0, nextIndex: 1, usage: {}, cost: null, tokens: 0, end: true });
  expect(await windowOf(), 'the provider of a later step has reported none').toMatchObject({ tokens: null });
});

it('U4 a step without a model, as an import may have, does not say how full the window is', async () => {
  const session = await Session.at('chatting', db);
  const windowOf = async () => (await readSession(db, session.user, session.id))?.window;
  const usage = { input: 10, output: 5 };
  await session.say('go on');
  await play(session, { steps: [{ usage, cost: null }], end: 'finished' });
  const known = await windowOf();
  expect(known).toEqual({ model: 'test/model', tokens: 15 });
  for (const [nth, steps] of ['[]', '[{}]', '[{"model": 7}]'].entries()) {
    await db.query(
      `INSERT INTO chat_messages (id, session_id, position, role, metadata)
       VALUES ($2, $1, $3, 'assistant', jsonb_build_object('steps', $4::jsonb))`,
      [session.id, `imported-${nth}`, 1_002 + nth, steps],
    );
    expect(await windowOf(), steps).toEqual(known);
  }
  const { run_seq: run } = (await session.say('go on')) as { run_seq: number };
  expect(await session.claim(run, [0, run, 1])).toMatchObject({ reported: { model: 'test/model', tokens: 15 } });
});

it('U4 after a switch to a model with too small a window the former one is back, unless another was chosen meanwhile', async () => {
  const session = await Session.at('chatting', db);
  const { run_seq: run } = (await session.say('go on', { model: 'test/small' })) as { run_seq: number };
  const fence: Fence = [0, run, 1];
  await session.claim(run, fence);
  const undo = () => call<boolean>(db, 'undo_switch', [session.id, run, fence, 'test/large']);
  await db.query(`UPDATE chat_sessions SET model = 'test/chosen' WHERE session_id = $1`, [session.id]);
  expect(await undo()).toBe(true);
  expect(await session.chat()).toMatchObject({ model: 'test/chosen' });
  await db.query(`UPDATE chat_sessions SET model = 'test/small' WHERE session_id = $1`, [session.id]);
  expect(await undo()).toBe(true);
  expect(await session.chat()).toMatchObject({ model: 'test/large' });
});

/** A session whose run with `test/small` is to be undone, after others with these models, and before those that are queued. */
async function switched(before: (string | null)[], queued: (string | null)[]) {
  const session = await Session.at('chatting', db);
  const say = async (model: string | null) => {
    const metadata = model === null ? {} : { model: { provider_id: 'test', model_id: model } };
    return ((await session.say('go on', { model, metadata })) as { run_seq: number }).run_seq;
  };
  for (const model of before) {
    const run = await say(model);
    await db.query(`UPDATE chat_runs SET state = 'finished' WHERE session_id = $1 AND seq = $2`, [session.id, run]);
  }
  const run = await say('test/small');
  const fence: Fence = [0, run, 1];
  await session.claim(run, fence);
  for (const model of queued) await say(model);
  return async (former: string) => {
    expect(await call<boolean>(db, 'undo_switch', [session.id, run, fence, former])).toBe(true);
    const sql = `SELECT model FROM chat_runs WHERE session_id = $1 AND state = 'queued' ORDER BY seq`;
    const { rows } = await db.query<{ model: string | null }>(sql, [session.id]);
    return [...rows.map(({ model }) => model), ((await session.chat()) as { model: string | null }).model];
  };
}

it('X10 after a failed switch, queued messages without a model go on with the former one, up to one that names another', async () => {
  const plain = await switched([], [null, 'rehearsal/x', null]);
  expect(await plain('test/large')).toEqual(['test/large', 'rehearsal/x', 'test/large', 'test/large']);
  const chosen = await switched([], [null, 'test/small', null]);
  expect(await chosen('test/large')).toEqual(['test/large', 'test/small', 'test/small', 'test/small']);
  const other = await switched([], ['test/other', null]);
  expect(await other('test/large')).toEqual(['test/other', 'test/other', 'test/other']);
});

it('X10 after a failed switch the rehearsal model is not that of the session', async () => {
  const undo = await switched(['test/large', 'rehearsal/x'], [null]);
  expect(await undo('rehearsal/x')).toEqual(['test/large', 'test/large']);
  const ofAgent = await switched([null, 'rehearsal/x'], []);
  expect(await ofAgent('rehearsal/x')).toEqual([null]);
  const failedBefore = await switched(['test/large', 'rehearsal/x', 'test/small'], [null]);
  expect(await failedBefore('rehearsal/x')).toEqual(['test/large', 'test/large']);
});

it('X10 after a failed switch, a choice that waits and is taken back leaves the former model', async () => {
  for (const chosen of ['test/other', 'test/small']) {
    const session = await Session.at('chatting', db);
    await session.say('go on', { model: 'test/small', metadata: { model: 'test/small' } });
    await session.claim(1, [0, 1, 1]);
    await session.say('and then', { id: 'chosen', model: chosen, metadata: { model: chosen } });
    expect(await call<boolean>(db, 'undo_switch', [session.id, 1, [0, 1, 1], 'test/large'])).toBe(true);
    expect(await session.chat()).toMatchObject({ model: chosen });
    await session.cancelQueued('chosen');
    expect(await session.chat()).toMatchObject({ model: 'test/large' });
  }
});

it('X10 so it is if the choice that waits was edited without naming its model again', async () => {
  const session = await Session.at('chatting', db);
  await session.say('go on', { model: 'test/small', metadata: { model: 'test/small' } });
  await session.claim(1, [0, 1, 1]);
  await session.say('and then', { id: 'chosen', model: 'test/other', metadata: { model: 'test/other' } });
  await session.edit('chosen', 'and now', { id: 'edited' });
  expect(await call<boolean>(db, 'undo_switch', [session.id, 1, [0, 1, 1], 'test/large'])).toBe(true);
  expect(await session.chat()).toMatchObject({ model: 'test/other' });
  await session.cancelQueued('edited');
  expect(await session.chat()).toMatchObject({ model: 'test/large' });
});
