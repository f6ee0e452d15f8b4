// Rewinds, un-rewinds, edits and new answers, as SQL functions.
import { describe, expect, it } from 'vitest';
import { readMessages } from '../../store/messages.ts';
import { beginRestore } from '../../store/snapshots.ts';
import { readTurn } from '../../store/turns.ts';
import { compact, pruneByHand } from './compacting.ts';
import { answered, conversation, everything, told, visible } from './conversation.ts';
import { type Answer, call, freshRows, type Row, rows, Session, textPart } from './session.ts';

const db = await freshRows();

const hiddenBy = async (session: Session, id: string) =>
  ((await session.messages()).find((row) => row['id'] === id)!['metadata'] as Row)['hidden_by'];
const eventsOf = (session: Session) =>
  rows(db, 'SELECT kind, data FROM session_events WHERE session_id = $1 ORDER BY seq DESC LIMIT 1', [session.id]);
const rewindsOf = async (session: Session) => (await session.chat())['rewinds'];

describe('rewind', () => {
  it('X1 hides what came after a user message, and the next message replaces it', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const phase = await session.row();
    const outcome = await session.rewind('two');
    expect(outcome).toMatchObject({ ok: true, hidden: 3, message: 'two', aborted: false, run_seq: null, dropped: [] });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two']);
    expect(await hiddenBy(session, 'three')).toEqual({ cause: 'rewind', id: `event:${String(outcome['event_seq'])}` });
    expect(await eventsOf(session)).toMatchObject([{ kind: 'rewind', data: { message_id: 'two', hidden: 3 } }]);
    expect(await session.row(), 'the row of state is as it was').toEqual(phase);
    await told(session, 'four');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'four', 'answer 4']);
    expect(await hiddenBy(session, 'two')).toEqual({ cause: 'edit', id: 'four' });
    const { view } = (await session.claim((await session.say('five'))['run_seq'] as number, [0, 9, 1])) as Answer & {
      view: Row[];
    };
    expect(view.map((part) => (part['data'] as Row)['text'])).toEqual(['one', 'answer 1', 'four', 'answer 4', 'five']);
  });

  it('X1 an un-rewind restores the same bytes, latest first, any number of times', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const before = await everything(session);
    for (let round = 0; round < 3; round += 1) {
      await session.rewind('three');
      const between = await everything(session);
      await session.rewind('one');
      expect(await visible(session)).toEqual(['one']);
      expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'one', shown: 4 });
      expect(await everything(session)).toEqual(between);
      expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'three', shown: 1 });
      expect(await everything(session)).toEqual(before);
    }
    expect(await rewindsOf(session)).toBeNull();
    expect(await session.unrewind()).toMatchObject({ ok: false, code: 'NothingToUnrewind' });
  });

  it('X1 an un-rewind waits for a compaction or prune by hand, which leaves what can be undone', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const all = await everything(session);
    await session.rewind('three');
    const { run_seq: run } = (await session.apply('compact', {})) as { run_seq: number };
    expect(await session.unrewind()).toMatchObject({ ok: false, code: 'RunInFlight' });
    await session.settleRun(run, 'aborted');
    expect(await session.unrewind()).toMatchObject({ ok: true, shown: 1 });
    expect(await everything(session)).toEqual(all);
  });

  it('X1 to the same message again counts once', async () => {
    const session = await conversation(db, 'one', 'two');
    await session.rewind('one');
    expect(await session.rewind('one')).toMatchObject({ ok: true, hidden: 0 });
    await session.unrewind();
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two', 'answer 2']);
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
  });

  it('X1 X9 to the same message again hides a prune that was made by hand since, and its un-rewind shows that again', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const all = await everything(session);
    await session.rewind('two');
    const pruned = await pruneByHand(session);
    const before = await everything(session);
    expect(before.find(({ id }) => id === pruned)).toMatchObject({ hidden_at: null });
    expect(await session.rewind('two')).toMatchObject({ ok: true, hidden: 1 });
    expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'two', shown: 1 });
    expect(await everything(session)).toEqual(before);
    await session.unrewind();
    expect((await everything(session)).filter(({ id }) => id !== pruned)).toEqual(all);
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
  });

  it('X1 after a new message there is nothing to un-rewind, and the hidden rows stay', async () => {
    const session = await conversation(db, 'one', 'two');
    await session.rewind('one');
    await told(session, 'three');
    expect(await session.unrewind()).toMatchObject({ ok: false, code: 'NothingToUnrewind' });
    expect(await visible(session)).toEqual(['three', 'answer 3']);
    expect((await session.messages()).map((row) => row['id'])).toEqual(
      expect.arrayContaining(['one', 'two', 'three']) as string[],
    );
  });

  it('X1 a repeat returns the recorded outcome', async () => {
    const session = await conversation(db, 'one', 'two');
    const first = await session.rewind('one', { command: 'again' });
    await session.unrewind();
    expect(await session.rewind('one', { command: 'again' })).toEqual(first);
    expect(await visible(session)).toHaveLength(4);
  });

  it('X1 during a run or with a queue it is refused, unless it ends them', async () => {
    const session = await conversation(db, 'one');
    const { run_seq: run } = (await session.say('two', { id: 'two' })) as { run_seq: number };
    await session.say('three', { id: 'three' });
    await session.claim(run, [0, 2, 1]);
    const part = textPart(0, '');
    await session.append(run, [0, 2, 1], [part], [{ part_id: part.id, start: 0, text: 'so far' }]);
    const before = await everything(session);
    expect(await session.rewind('one')).toMatchObject({ ok: false, code: 'RunInFlight' });
    expect(await everything(session)).toEqual(before);
    const outcome = await session.rewind('one', { abort: true });
    expect(outcome).toMatchObject({ ok: true, aborted: true, run_seq: run, dropped: ['three'], hidden: 3 });
    expect(await session.run(run)).toMatchObject({ state: 'aborted' });
    expect(await session.append(run, [0, 2, 1], [], [{ part_id: part.id, start: 6, text: ' too late' }])).toBe('lost');
    expect(await visible(session)).toEqual(['one']);
    await session.unrewind();
    expect(await visible(session), 'what was dropped stays so').toEqual(['one', 'answer 1', 'two', 'so far']);
    expect(await hiddenBy(session, 'three')).toMatchObject({ cause: 'cancelled' });
  });

  it('X1 names as dropped neither a compaction that was to come nor a message that was to be answered again', async () => {
    const session = await conversation(db, 'one', 'two');
    const { run_seq: again } = (await session.regenerate('two')) as { run_seq: number };
    await session.say('three', { id: 'three' });
    const first = await session.rewind('one', { abort: true });
    expect(first).toMatchObject({ dropped: ['three'], dequeued: [again, again + 1] });
    const { run_seq: hand } = (await session.apply('compact', {})) as { run_seq: number };
    expect(await session.rewind('one', { abort: true })).toMatchObject({ dropped: [], dequeued: [hand] });
    expect(await session.run(hand)).toMatchObject({ state: 'cancelled' });
  });

  it('X1 a run without an answer yet leaves none behind', async () => {
    const session = await conversation(db, 'one');
    const { run_seq: run } = (await session.say('two')) as { run_seq: number };
    await session.claim(run, [0, 2, 1]);
    await session.rewind('one', { abort: true });
    expect(await session.append(run, [0, 2, 1], [textPart(0, 'late')])).toBe('lost');
    expect(await session.settleStep(run, [0, 2, 1], { end: true })).toEqual({ kind: 'lost' });
    expect(await visible(session)).toEqual(['one']);
  });

  it('X1 a queued message can be gone back to: it is not answered, but stays', async () => {
    const session = await conversation(db, 'one');
    const { run_seq: run } = (await session.say('two', { id: 'two' })) as { run_seq: number };
    await session.say('three', { id: 'three' });
    expect(await session.rewind('two', { abort: true })).toMatchObject({ dropped: ['two', 'three'], run_seq: null });
    expect(await session.run(run)).toMatchObject({ state: 'cancelled' });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two']);
    await session.unrewind();
    expect(await visible(session), 'it was dropped').toEqual(['one', 'answer 1']);
    expect(await hiddenBy(session, 'two')).toEqual({ cause: 'cancelled', id: 'two' });
  });

  it.each<[string, (session: Session) => Promise<string>, string]>([
    ['an answer', async (session) => (await session.messages())[1]!['id'] as string, 'NotUserMessage'],
    ['an unknown message', async () => 'nothing', 'MessageNotFound'],
    [
      'a message of another session',
      async () => (await conversation(db, 'elsewhere')) && 'elsewhere',
      'MessageNotFound',
    ],
    ['a message that a rewind hid', async (session) => (await session.rewind('one')) && 'two', 'MessageHidden'],
    ['a message that an edit hid', async (session) => (await session.edit('two', 'new')) && 'two', 'MessageHidden'],
    [
      'a cancelled message',
      async (session) => {
        await session.say('three', { id: 'three' });
        await session.cancelQueued('three');
        return 'three';
      },
      'MessageHidden',
    ],
  ])('X1 to %s is refused, and nothing changes', async (_what, prepare, code) => {
    const session = await conversation(db, 'one', 'two');
    const target = await prepare(session);
    const before = await everything(session);
    const stack = await rewindsOf(session);
    expect(await session.rewind(target, { abort: true })).toMatchObject({ ok: false, code });
    expect(await everything(session)).toEqual(before);
    expect(await rewindsOf(session)).toEqual(stack);
  });
});

describe('compactions', () => {
  it('X3 X9 a rewind over compactions and prunes shows what was seen before them, and an un-rewind hides it again, byte for byte', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    await compact(session);
    await told(session, 'four');
    await pruneByHand(session);
    await told(session, 'five');
    await compact(session);
    const before = await everything(session);
    expect(await visible(session)).toEqual([null, 'five', 'answer 7']);
    // Neither a summary nor a prune has a text.
    const seen = {
      one: ['one'],
      two: ['one', 'answer 1', 'two'],
      three: [null, 'three'],
      four: [null, 'three', 'answer 3', 'four'],
      five: [null, 'five'],
    };
    for (const [message, expected] of Object.entries(seen)) {
      expect(await session.rewind(message)).toMatchObject({ ok: true });
      expect(await visible(session), message).toEqual(expected);
      expect(await session.unrewind()).toMatchObject({ ok: true, message_id: message });
      expect(await everything(session), message).toEqual(before);
    }
    const between: Row[][] = [];
    for (const message of ['five', 'four', 'one']) {
      between.push(await everything(session));
      await session.rewind(message);
    }
    for (const rewound of between.toReversed()) {
      await session.unrewind();
      expect(await everything(session)).toEqual(rewound);
    }
  });
});

describe('edit', () => {
  it('X1 H8 replaces the message, and hides what came after it', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const outcome = await session.edit('two', 'zwei', { id: 'zwei' });
    expect(outcome).toMatchObject({ ok: true, accepted: true, message_id: 'zwei', aborted_run: null, dropped: [] });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'zwei']);
    expect(await hiddenBy(session, 'two')).toEqual({ cause: 'edit', id: 'zwei' });
    expect(await hiddenBy(session, 'three')).toEqual({ cause: 'rewind', id: 'zwei' });
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
    expect(await eventsOf(session)).toMatchObject([{ kind: 'refused' }]);
  });

  it('X1 the old id stands for the newest message in its place, and the same edit again is a repeat', async () => {
    const session = await conversation(db, 'one');
    const first = await session.edit('one', 'uno');
    expect(await session.edit('one', 'uno')).toMatchObject({ accepted: false, run_seq: first['run_seq'] });
    await answered(session, first['run_seq'] as number);
    const second = await session.edit('one', 'eins');
    expect(second).toMatchObject({ accepted: true });
    expect(await session.say('eins', { id: 'one' })).toMatchObject({ accepted: false, run_seq: second['run_seq'] });
    expect(await session.say('one', { id: 'one' }), 'the first one as it was sent').toMatchObject({ run_seq: 1 });
    expect(await session.say('uno', { id: 'one' })).toEqual({ ok: false, code: 'MessageConflict' });
    expect(await visible(session)).toEqual([second['message_id']]);
  });

  it('X1 always ends the run in flight and drops the queue', async () => {
    const session = await conversation(db, 'one');
    const { run_seq: run } = (await session.say('two', { id: 'two' })) as { run_seq: number };
    await session.say('three', { id: 'three' });
    await session.claim(run, [0, 2, 1]);
    const outcome = await session.edit('one', 'uno', { id: 'uno' });
    expect(outcome).toMatchObject({ accepted: true, position: 0, aborted_run: run, dropped: ['three'] });
    expect((await session.runs()).map((each) => each['state'])).toEqual(['finished', 'aborted', 'cancelled', 'queued']);
  });

  it('W7 of a queued message exchanges it, and leaves the run and the rest of the queue alone', async () => {
    const session = await conversation(db, 'one');
    for (const text of ['two', 'three', 'four']) await session.say(text, { id: text });
    await session.claim(2, [0, 2, 1]);
    expect(await session.edit('three', 'drei', { id: 'drei' })).toMatchObject({ accepted: true, position: 2 });
    expect((await session.runs()).map((each) => each['state'])).toEqual([
      'finished',
      'running',
      'cancelled',
      'queued',
      'queued',
    ]);
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two', 'four', 'drei']);
    expect(await hiddenBy(session, 'three')).toEqual({ cause: 'edit', id: 'drei' });
  });

  it('X1 after a rewind, it replaces the message that was gone back to, or an earlier one', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    await session.rewind('two');
    expect(await session.edit('three', 'drei')).toMatchObject({ ok: false, code: 'MessageHidden', cause: 'rewind' });
    await session.edit('one', 'uno', { id: 'uno' });
    expect(await visible(session)).toEqual(['uno']);
    expect(await rewindsOf(session)).toBeNull();
  });

  it('X1 of an answer, an unknown message, or by another user is refused', async () => {
    const session = await conversation(db, 'one');
    const before = await everything(session);
    const answer = (await session.messages())[1]!['id'] as string;
    expect(await session.edit(answer, 'x')).toMatchObject({ ok: false, code: 'NotUserMessage' });
    expect(await session.edit('nothing', 'x')).toMatchObject({ ok: false, code: 'MessageNotFound' });
    expect(await session.edit('one', 'x', { user: 'eve' })).toMatchObject({ ok: false, code: 'SessionNotFound' });
    expect(await session.regenerate(answer)).toMatchObject({ ok: false, code: 'NotUserMessage' });
    expect(await session.regenerate('one', { user: 'eve' })).toMatchObject({ ok: false, code: 'SessionNotFound' });
    expect(await everything(session)).toEqual(before);
  });
});

describe('a new answer', () => {
  it('H8 is a new run of the same user row, after which the old answer is hidden', async () => {
    const session = await conversation(db, 'one', 'two');
    const again = (await session.regenerate('one')) as { run_seq: number };
    expect(again).toMatchObject({ ok: true, accepted: true, message_id: 'one', state: 'queued', run_seq: 3 });
    await session.say('later', { id: 'later' });
    await answered(session, 3);
    expect(await visible(session)).toEqual(['one', 'answer 3', 'later']);
    const { view } = (await session.claim(4, [0, 4, 1])) as Answer & { view: Row[] };
    expect(view.map((part) => (part['data'] as Row)['text'])).toEqual(['one', 'answer 3', 'later']);
    expect(await session.chat(), 'all answers were paid for').toMatchObject({ prompt_tokens: 6, completion_tokens: 3 });
  });

  it('H8 asked for twice with the answer that it replaces is made once', async () => {
    const session = await conversation(db, 'one');
    const replaced = (await session.messages())[1]!['id'] as string;
    const first = await session.regenerate('one', { replaced });
    expect(await session.regenerate('one', { replaced })).toMatchObject({ accepted: false, run_seq: first['run_seq'] });
    const newer = await answered(session, first['run_seq'] as number);
    expect(await session.regenerate('one', { replaced })).toMatchObject({ accepted: false, state: 'finished' });
    expect(await session.regenerate('one', { replaced: newer })).toMatchObject({ accepted: true, run_seq: 3 });
  });

  it('H8 follows an edit, ends what is open, and after an error continues the queue', async () => {
    const session = await conversation(db, 'one');
    const { run_seq: run } = (await session.edit('one', 'uno', { id: 'uno' })) as { run_seq: number };
    await session.claim(run, [0, run, 1]);
    await session.say('queued', { id: 'queued' });
    expect(await session.regenerate('one')).toMatchObject({ message_id: 'uno', aborted_run: run, dropped: ['queued'] });
    await session.claim(4, [0, 4, 1]);
    await session.settleRun(4, 'error');
    expect((await session.chat())['paused_at']).not.toBeNull();
    await session.regenerate('uno');
    expect((await session.chat())['paused_at']).toBeNull();
  });

  it('H8 is refused the 998th time', async () => {
    const session = await conversation(db, 'one');
    await db.query(
      `INSERT INTO chat_messages (id, session_id, position, role, hidden_at)
       SELECT 'old' || n, $1, n, 'assistant', now() FROM generate_series(1002, 1998) AS n`,
      [session.id],
    );
    expect(await session.regenerate('one')).toMatchObject({ ok: false, code: 'TooManyAnswers' });
    expect(await visible(session)).toEqual(['one', 'answer 1']);
    await told(session, 'two');
  });
});

describe('a queued message that is taken back', () => {
  /** One to three were said, the session was rewound to `two`, and then `four` was said, which is queued. */
  async function rewoundAndSaid(): Promise<{ session: Session; all: Row[]; rewound: Row[] }> {
    const session = await conversation(db, 'one', 'two', 'three');
    const all = await everything(session);
    await session.rewind('two');
    const rewound = await everything(session);
    await session.say('four', { id: 'four' });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'four']);
    return { session, all, rewound };
  }

  /** The rows of a session without some messages. */
  const except = async (session: Session, ...ids: string[]) =>
    (await everything(session)).filter((row) => !ids.includes(row['id'] as string));

  it('X1 W7 gives back the message that was gone back to: an un-rewind is possible, and the next message replaces it', async () => {
    const { session, all, rewound } = await rewoundAndSaid();
    await session.cancelQueued('four');
    expect(await except(session, 'four')).toEqual(rewound);
    expect(await hiddenBy(session, 'four')).toEqual({ cause: 'cancelled', id: 'four' });
    expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'two', shown: 3 });
    expect(await except(session, 'four')).toEqual(all);
    await session.rewind('two');
    await told(session, 'five');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'five', 'answer 5']);
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
  });

  it.each<[string, (session: Session) => Promise<unknown>]>([
    ['a close', (session) => session.close(true)],
    ['a rewind further back', (session) => session.rewind('one', { abort: true })],
  ])('X1 W7 gives it back also if %s drops it', async (_what, drop) => {
    const { session, all, rewound } = await rewoundAndSaid();
    await session.say('five', { id: 'five' });
    expect(await drop(session)).toMatchObject({ ok: true, dropped: ['four', 'five'] });
    if ((await visible(session)).length === 1) await session.unrewind();
    expect(await except(session, 'four', 'five')).toEqual(rewound);
    await session.unrewind();
    expect(await except(session, 'four', 'five')).toEqual(all);
  });

  it('X1 W7 after an edit leaves the conversation as it was before, without the run that the edit ended', async () => {
    const session = await conversation(db, 'one', 'two');
    const before = await everything(session);
    const { run_seq: run } = (await session.say('three', { id: 'three' })) as { run_seq: number };
    await session.claim(run, [0, run, 1]);
    await session.append(run, [0, run, 1], [textPart(0, 'so far')]);
    await session.say('queued', { id: 'queued' });
    await session.edit('two', 'zwei', { id: 'zwei' });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'zwei']);
    await session.cancelQueued('zwei');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two', 'answer 2', 'three', 'so far']);
    expect((await everything(session)).slice(0, 4)).toEqual(before);
    expect((await session.runs()).map((each) => each['state']).slice(2)).toEqual(['aborted', 'cancelled', 'cancelled']);
    expect(await session.edit('two', 'zwei'), 'the old id stands for nothing else').toMatchObject({ accepted: true });
  });

  it('X1 X3 W7 after an edit before a compaction hides again what that had summarized', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const summary = await compact(session);
    const before = await everything(session);
    await session.edit('one', 'uno', { id: 'uno' });
    expect(await visible(session)).toEqual(['uno']);
    await session.cancelQueued('uno');
    expect(await except(session, 'uno')).toEqual(before);
    expect(await hiddenBy(session, 'one')).toEqual({ cause: 'compaction', id: summary });
  });

  it('H8 W7 as a new answer gives back the old one, and a repeat of the message gets that', async () => {
    const session = await conversation(db, 'one', 'two');
    const before = await everything(session);
    const replaced = (await session.messages())[1]!['id'] as string;
    await session.regenerate('one', { replaced });
    expect(await visible(session)).toEqual(['one']);
    expect(await session.cancelQueued('one')).toMatchObject({ ok: true });
    expect(await everything(session)).toEqual(before);
    expect(await session.say('one', { id: 'one' })).toMatchObject({ accepted: false, run_seq: 1, state: 'finished' });
    expect(await readTurn(db, session.id, { run: null, message: 'one' })).toMatchObject({ run_seq: 1 });
    expect(await readTurn(db, session.id, { run: null, message: null })).toMatchObject({ run_seq: 2 });
    expect(await session.regenerate('one', { replaced })).toMatchObject({ accepted: true, run_seq: 4 });
  });

  it('H8 W7 as a new answer leaves how the last turn of its message has ended', async () => {
    const session = await Session.saying(db, 'one');
    await session.settleRun(1, 'aborted');
    await session.regenerate('one');
    await session.cancelQueued('one');
    const { items } = await readMessages(db, session.id, { limit: 50, hidden: false });
    expect(items).toMatchObject([{ id: 'one', metadata: { turn: { state: 'aborted' } } }]);
  });

  it('X1 H8 W7 an edit or a new answer after a rewind gives back that rewind', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    const all = await everything(session);
    await session.rewind('two');
    const rewound = await everything(session);
    await session.edit('one', 'uno', { id: 'uno' });
    expect(await session.regenerate('one')).toMatchObject({ accepted: false, message_id: 'uno' });
    await session.cancelQueued('uno');
    expect(await except(session, 'uno')).toEqual(rewound);
    await session.regenerate('two');
    await session.cancelQueued('two');
    expect(await except(session, 'uno')).toEqual(rewound);
    await session.unrewind();
    expect(await except(session, 'uno')).toEqual(all);
  });

  it('X1 W7 leaves to the next one in the queue what it had replaced after a rewind', async () => {
    const { session, all } = await rewoundAndSaid();
    await session.say('five', { id: 'five' });
    await session.cancelQueued('four');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'five']);
    expect(await hiddenBy(session, 'two')).toEqual({ cause: 'edit', id: 'five' });
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
    await session.cancelQueued('five');
    await session.unrewind();
    expect(await except(session, 'four', 'five')).toEqual(all);
  });

  it('P4 W7 leaves nothing to the result of a task: that replaces no message', async () => {
    const { session } = await rewoundAndSaid();
    await session.say('result', { id: 'result' });
    await db.query(
      `INSERT INTO tasks (child_id, parent_id, run_seq, tool_call_id, agent, background, token_limit, message_id)
       VALUES ($1, $2, 1, 'call_1', 'helper', true, 1, 'result')`,
      [(await Session.at('chatting', db)).id, session.id],
    );
    await session.say('five', { id: 'five' });
    await session.cancelQueued('four');
    expect(await visible(session), 'the message behind it replaces').toEqual(['one', 'answer 1', 'result', 'five']);
    await session.cancelQueued('five');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'two', 'result']);
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
  });

  it('X1 W7 that was exchanged for another gives back what the first one had replaced', async () => {
    const { session, all, rewound } = await rewoundAndSaid();
    await session.edit('four', 'vier', { id: 'vier' });
    await session.edit('four', 'quattro', { id: 'quattro' });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'quattro']);
    await session.cancelQueued('quattro');
    expect(await except(session, 'four', 'vier', 'quattro')).toEqual(rewound);
    expect(await session.say('quattro', { id: 'four' })).toMatchObject({ accepted: false, state: 'cancelled' });
    await session.unrewind();
    expect(await except(session, 'four', 'vier', 'quattro')).toEqual(all);
  });

  it('X1 W7 that was exchanged for a later one gives nothing back once another turn has begun', async () => {
    const { session } = await rewoundAndSaid();
    const { run_seq: five } = (await session.say('five', { id: 'five' })) as { run_seq: number };
    await session.edit('four', 'vier', { id: 'vier' });
    await answered(session, five);
    await session.cancelQueued('vier');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'five', 'answer 5']);
    expect(await session.unrewind()).toMatchObject({ code: 'NothingToUnrewind' });
  });

  it('X1 by a rewind to itself keeps its place, until that is undone', async () => {
    const { session, all, rewound } = await rewoundAndSaid();
    await session.say('five', { id: 'five' });
    expect(await session.rewind('four', { abort: true })).toMatchObject({ dropped: ['four', 'five'], hidden: 0 });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'four']);
    await session.say('six', { id: 'six' });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'six']);
    await session.cancelQueued('six');
    expect(await visible(session)).toEqual(['one', 'answer 1', 'four']);
    expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'four', shown: 1 });
    expect(await except(session, 'four', 'five', 'six')).toEqual(rewound);
    expect(await hiddenBy(session, 'four')).toEqual({ cause: 'cancelled', id: 'four' });
    await session.unrewind();
    expect(await except(session, 'four', 'five', 'six')).toEqual(all);
  });

  it('X1 X5 by a rewind to itself is compacted in the order of the conversation', async () => {
    const { session } = await rewoundAndSaid();
    await session.rewind('four', { abort: true });
    await compact(session);
    expect(await visible(session)).toEqual([null, 'four']);
    await session.unrewind();
    expect(await visible(session)).toEqual([null, 'two']);
    await session.unrewind();
    expect(await visible(session)).toEqual([null, 'two', 'answer 2', 'three', 'answer 3']);
  });

  it('X1 by a rewind to the one behind it has its place taken by that', async () => {
    const { session, rewound } = await rewoundAndSaid();
    await session.say('five', { id: 'five' });
    await session.rewind('five', { abort: true });
    expect(await visible(session)).toEqual(['one', 'answer 1', 'five']);
    await session.unrewind();
    expect(await except(session, 'four', 'five')).toEqual(rewound);
  });

  it('X2 W7 after an edit asks for no files any more, unless a worker has begun to restore them', async () => {
    const session = await conversation(db, 'one', 'two', 'three');
    for (const id of ['one', 'two', 'three']) await call(db, 'note_snapshot', [session.id, id, `files of ${id}`]);
    const asked = async () => (await session.chat())['restore'];
    await session.edit('two', 'zwei', { id: 'zwei' });
    expect(await asked()).toMatchObject({ to: 'files of two' });
    await session.cancelQueued('zwei');
    expect(await asked()).toBeNull();
    await session.rewind('three');
    await session.regenerate('one');
    expect(await asked()).toMatchObject({ to: 'files of one' });
    await session.cancelQueued('one');
    expect(await asked(), 'what the rewind has asked for').toMatchObject({ to: 'files of three' });
    await session.regenerate('one');
    await beginRestore(db, session.id, 'home');
    await session.cancelQueued('one');
    expect(await asked()).toMatchObject({ to: 'files of one' });
  });
});
