// What followers hear of a compaction.
import { expect, it } from 'vitest';
import { AnswerReader } from '../../client/live/answer-reader.ts';
import { FollowerReads } from '../../client/live/follower-reads.ts';
import { Limiter } from '../../client/wait/limiter.ts';
import { conversation } from './conversation.ts';
import { call, freshRows } from './session.ts';

const db = await freshRows();
const reads = new FollowerReads(db, new Limiter(2));

it('R2 X5 a reader that was told of a compaction hears of its end, also if the run is over by its next read', async () => {
  const session = await conversation(db, 'one', 'two', 'three');
  const { run_seq: run } = (await session.apply('compact', {})) as { run_seq: number };
  const fence = [0, run, 1];
  await call(db, 'claim_compaction', [session.id, run, fence, null]);
  const follow = () => new AnswerReader(reads, { userId: 'ada', sessionId: session.id, runSeq: run });
  const reader = follow();
  const begun = await reader.read();
  expect(begun).toMatchObject({ done: false });
  expect(begun.items).toContainEqual({ type: 'data-compaction', transient: true, data: { state: 'running' } });
  const data = { summary: 'short', tail_start_id: 'three' };
  const made = { message_id: 's', part_id: 'p', metadata: {}, type: 'data-compaction', data, usage: {} };
  const args = [session.id, run, fence, JSON.stringify(made), '{"state": "summarized", "turns": 2}', null];
  expect(await call(db, 'store_compaction', args)).toBe(true);
  expect(await call(db, 'finish_compaction', [session.id, run, fence])).toMatchObject({ state: 'finished' });
  const { items, done } = await reader.read();
  expect(done).toBe(true);
  expect(items[0]).toMatchObject({ type: 'data-compaction', transient: true, data: { state: 'summarized', turns: 2 } });
  expect(items.at(-1)).toMatchObject({ type: 'finish' });
  // One that comes later is not told of what is over.
  expect((await follow().read()).items).not.toContainEqual(
    expect.objectContaining({ type: 'data-compaction', transient: true }),
  );
});

it.each([
  ['an abort', 'aborted', 'none'],
  ['an error', 'error', 'failed'],
])('R2 X5 a reader that was told of a compaction hears of its end by %s', async (_how, state, end) => {
  const session = await conversation(db, 'one', 'two', 'three');
  const { run_seq: run } = (await session.apply('compact', {})) as { run_seq: number };
  await call(db, 'claim_compaction', [session.id, run, [0, run, 1], null]);
  const reader = new AnswerReader(reads, { userId: 'ada', sessionId: session.id, runSeq: run });
  await reader.read();
  await call(db, 'settle_run', [session.id, run, [0, run, 1], state, 'ContextTooLong', 'too long', 'not run']);
  const { items, done } = await reader.read();
  expect(done).toBe(true);
  expect(items[0]).toMatchObject({ type: 'data-compaction', transient: true, data: { state: end } });
});

it('R2 X5 a reader that was told of a compaction hears if the next attempt of its step does without', async () => {
  const session = await conversation(db, 'one');
  const { run_seq: run } = (await session.say('two', { id: 'two' })) as { run_seq: number };
  await session.claim(run, [0, 1, 1]);
  await call(db, 'note_compaction', [session.id, run, [0, 1, 1], '{"state": "running"}']);
  const reader = new AnswerReader(reads, { userId: 'ada', sessionId: session.id, runSeq: run });
  const state = async () =>
    (await reader.read()).items.flatMap((item) => (item.type === 'data-compaction' ? [item.data] : []));
  expect(await state()).toEqual([{ state: 'running' }]);
  await session.claim(run, [0, 1, 2]);
  expect(await state()).toEqual([{ state: 'none' }]);
  expect(await state()).toEqual([]);
});
