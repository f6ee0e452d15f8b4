// One statement that stores batches of several runs.
import { expect, it } from 'vitest';
import type { Fence } from '../../domain/runs.ts';
import { appendStreams } from '../../store/streams.ts';
import { freshRows, Session, textPart, untilBlocked } from './session.ts';

const db = await freshRows();
const FENCE: Fence = [1, 1, 1];

async function answering(): Promise<Session> {
  const session = await Session.at('chatting', db);
  await session.say('hello');
  await session.claim(1, FENCE);
  return session;
}

/** A batch with a part and text that follows it. */
function batchOf(session: Session) {
  const part = textPart(0, 'Once');
  return session.batch(1, FENCE, [part], [{ part_id: part.id, start: 4, text: ' upon' }]);
}

it('T4 S8 each batch of a statement is stored under its own fence: live, aborted, overtaken, ended, unknown', async () => {
  const [live, aborted, overtaken, ended, other] = await Promise.all(Array.from({ length: 5 }, answering));
  await aborted!.abort();
  await overtaken!.claim(1, [1, 1, 2]);
  await ended!.settleRun(1, 'aborted');
  const unknown = new Session(db);
  const sessions = [live!, aborted!, overtaken!, ended!, unknown, other!];
  const before = await Promise.all([overtaken!, ended!].map((session) => session.everything()));
  expect(await appendStreams(db, sessions.map(batchOf))).toEqual(['live', 'abort', null, null, null, 'live']);
  for (const session of [live!, aborted!, other!]) {
    expect(await session.live()).toContainEqual({ type: 'text', text: 'Once upon', state: 'streaming' });
    expect(await session.messages()).toHaveLength(2);
  }
  expect(await Promise.all([overtaken!, ended!].map((session) => session.everything()))).toEqual(before);
});

it('T4 a statement skips a run that is locked, and does not wait; the batch alone waits', async () => {
  const [locked, free] = [await answering(), await answering()];
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    await client.query('SELECT FROM chat_runs WHERE session_id = $1 FOR UPDATE', [locked.id]);
    expect(await appendStreams(db, [batchOf(locked), batchOf(free)])).toEqual([null, 'live']);
    expect(await locked.messages()).toHaveLength(1);
    const alone = locked.append(1, FENCE, [textPart(0, 'Once')]);
    await untilBlocked(db);
    await client.query('COMMIT');
    expect(await alone).toBe('live');
  } finally {
    client.release(true);
  }
});

it('S8 a claim waits for a statement of several batches, and includes its own', async () => {
  const [one, other] = [await answering(), await answering()];
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    expect(await appendStreams(client, [batchOf(one), batchOf(other)])).toEqual(['live', 'live']);
    const claim = other.claim(1, [1, 1, 2]);
    await untilBlocked(db);
    await client.query('COMMIT');
    expect(await claim).toMatchObject({ kind: 'claimed', lost: [{ index: 0, text: ' upon' }] });
  } finally {
    client.release(true);
  }
});
