// Writes that send their pointer to readers in the same round trip.
import { expect, it } from 'vitest';
import type { Pointer } from '../../bus/bus.ts';
import { createPostgresBus } from '../../bus/postgres.ts';
import type { Fence } from '../../domain/runs.ts';
import { acceptMessage } from '../../store/messages.ts';
import { settleStep } from '../../store/steps.ts';
import { appendStreams } from '../../store/streams.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshRows, Session, textPart } from './session.ts';

const FENCE: Fence = [1, 1, 1];
const SETTLEMENT = {
  ...{ metadata: {}, parts: [], nextIndex: 0, step: 0, model: 'test/model', finishReason: 'stop', tokens: 1 },
  ...{ usage: { input: 1, output: 1, reasoning: 0, cache_read: 0, cache_write: 0 }, toolCalls: [], end: true },
};

const db = await freshRows();
const bus = createPostgresBus({ connectionString: db.options.connectionString! });
afterFile(() => bus.close());
const pointers: Pointer[] = [];
await new Promise<void>((resolve) => {
  bus.subscribe((event) => {
    if (event.kind === 'reconnected') resolve();
    else pointers.push(event);
  });
});
const pointersOf = (session: Session) => pointers.filter((pointer) => pointer.session === session.id);

function accept({ id: sessionId, user: userId }: Session, id: string) {
  const message = { id, answerId: `${id}-answer`, parts: [], metadata: {}, model: null, attributes: null };
  return acceptMessage(db, { sessionId, userId }, message, { maxQueue: 1, notify: true });
}

it('R2 each write sends the pointers of what it has stored, and none of what it has refused', async () => {
  const session = await Session.at('chatting', db);
  const overtaken = await Session.at('chatting', db);
  expect(await accept(session, 'm1')).toMatchObject({ ok: true, accepted: true, state: 'queued' });
  expect(await accept(session, 'm2')).toMatchObject({ ok: false, code: 'TooMany' });
  await overtaken.say('hello');
  await overtaken.claim(1, [1, 1, 2]);
  const claim = { sessionId: session.id, runSeq: 1, fence: FENCE };
  await session.claim(1, FENCE);
  const batches = [session, overtaken].map((each) => each.batch(1, FENCE, [textPart(0, 'Once')]));
  expect(await appendStreams(db, batches, { notify: true })).toEqual(['live', null]);
  expect(await appendStreams(db, batches.slice(1), { notify: true })).toEqual([null]);
  expect(await settleStep(db, claim, { ...SETTLEMENT, end: false }, { notify: true })).toMatchObject({
    state: 'running',
  });
  const last = { ...SETTLEMENT, step: 1 };
  expect(await settleStep(db, claim, last, { notify: true })).toMatchObject({ kind: 'settled', state: 'finished' });
  const stream = { session: session.id, run: 1, kind: 'stream' };
  const accepted = { session: session.id, run: 1, kind: 'accepted' };
  const status = { session: session.id, kind: 'status' };
  const expected = [accepted, status, stream, stream, { ...stream, over: true }, status];
  await eventually(() => expect(pointersOf(session)).toEqual(expected));
  expect(pointersOf(overtaken)).toEqual([]);
});

it('R2 a write is committed before its pointer is sent, and stays when the queue of pointers is full', async () => {
  const session = await Session.at('chatting', db);
  await db.query(`
    CREATE OR REPLACE FUNCTION notify_readers(p_pointers jsonb) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = 'program_limit_exceeded';
    END $$`);
  // Refused by the queue, a write is repeated without its pointer.
  expect(await accept(session, 'm1')).toMatchObject({ ok: true, accepted: false, state: 'queued', run_seq: 1 });
  const claim = { sessionId: session.id, runSeq: 1, fence: FENCE };
  await session.claim(1, FENCE);
  expect(await appendStreams(db, [session.batch(1, FENCE, [textPart(0, 'Once')])], { notify: true })).toEqual(['live']);
  expect(await settleStep(db, claim, SETTLEMENT, { notify: true })).toMatchObject({ state: 'finished' });
  expect(await session.messages()).toHaveLength(2);
  expect(pointersOf(session)).toEqual([]);
});
