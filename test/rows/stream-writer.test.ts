// The writer of a worker's streams, on Postgres: a stream that is locked, refused, long or stuck delays no other.
import pg from 'pg';
import { expect, it } from 'vitest';
import { type Landing, type Statements, type Stream, StreamWriter } from '../../activities/streaming/stream-writer.ts';
import type { PartWrite } from '../../domain/part-data.ts';
import type { Fence } from '../../domain/runs.ts';
import { appendStream, appendStreams, streamBatch, type StreamState, type StreamWrite } from '../../store/streams.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { freshRows, Session, textPart, untilBlocked } from './session.ts';

const FENCE: Fence = [1, 1, 1];
const db = await freshRows();

/** One text that grows; each `say` is a batch. */
class Talk implements Stream {
  readonly session: Session;
  private readonly writer: StreamWriter;
  private readonly part = textPart(0);
  private start = 0;
  private next = '';
  private said = Promise.withResolvers<StreamState>();

  constructor(session: Session, writer: StreamWriter) {
    this.session = session;
    this.writer = writer;
  }

  /** Settles when the batch has landed. */
  say(text: string): Promise<StreamState> {
    this.next = text;
    this.said = Promise.withResolvers();
    this.writer.add(this, this.start === 0 ? 'first' : 'tick');
    return this.said.promise;
  }

  take(landing: Landing): StreamWrite {
    const deltas = [{ part_id: this.part.id, start: this.start, text: this.next }];
    const parts = this.start === 0 ? [this.part as PartWrite] : [];
    const batch = streamBatch({ parts, deltas }, this.start === 0 ? {} : undefined);
    const write = { claim: { sessionId: this.session.id, runSeq: 1, fence: FENCE }, batch };
    this.start += this.next.length;
    const { resolve, reject } = this.said;
    void landing.then((state) => state ?? this.writer.writeAlone(write)).then(resolve, reject);
    return write;
  }

  async text(): Promise<string> {
    const parts = await this.session.live();
    return (parts.find((part) => part['state'] === 'streaming')?.['text'] ?? '') as string;
  }
}

/** A writer, the sessions of its statements so far, and hooks before they are executed. */
function writerOn(pool: pg.Pool) {
  const made = { shared: [] as string[][], alone: [] as string[] };
  const before: Partial<Record<keyof Statements, (sessions: string[]) => Promise<void> | undefined>> = {};
  const writer = new StreamWriter(
    {
      shared: async (writes) => {
        const sessions = writes.map(({ claim }) => claim.sessionId);
        made.shared.push(sessions);
        await before.shared?.(sessions);
        return appendStreams(pool, writes);
      },
      alone: async (write) => {
        made.alone.push(write.claim.sessionId);
        await before.alone?.([write.claim.sessionId]);
        return appendStream(pool, write);
      },
    },
    { ms: 30 },
  );
  const talk = async () => {
    const session = await Session.at('chatting', db);
    await session.say('hello');
    await session.claim(1, FENCE);
    return new Talk(session, writer);
  };
  return { made, before, talks: (count: number) => Promise.all(Array.from({ length: count }, talk)) };
}

it('T4 what streams have to say at the same time is one statement', async () => {
  const { made, talks } = writerOn(db);
  const all = await talks(20);
  expect(new Set(await Promise.all(all.map((talk) => talk.say('Once'))))).toEqual(new Set(['live']));
  expect(new Set(await Promise.all(all.map((talk) => talk.say(' upon'))))).toEqual(new Set(['live']));
  expect(made.shared.map((sessions) => sessions.length)).toEqual([20, 20]);
  expect(made.alone).toEqual([]);
  expect(new Set(await Promise.all(all.map((talk) => talk.text())))).toEqual(new Set(['Once upon']));
});

it('T4 a stream whose run is locked delays no other, and lands when it is free', async () => {
  const { made, talks } = writerOn(db);
  const [locked, free] = (await talks(2)) as [Talk, Talk];
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    await client.query('SELECT FROM chat_runs WHERE session_id = $1 FOR UPDATE', [locked.session.id]);
    const late = locked.say('late');
    for (const word of ['Once', ' upon', ' a', ' time']) expect(await free.say(word)).toBe('live');
    expect(made.shared[0], 'both were in one statement').toHaveLength(2);
    expect(await free.text()).toBe('Once upon a time');
    expect(await locked.text()).toBe('');
    await client.query('COMMIT');
    expect(await late).toBe('live');
    expect(await locked.text()).toBe('late');
  } finally {
    client.release(true);
  }
});

it('T4 locked streams leave the worker connections', async () => {
  const { talks } = writerOn(db);
  const [free, ...locked] = (await talks(15)) as [Talk, ...Talk[]];
  const other = new pg.Client({ connectionString: db.options.connectionString });
  await other.connect();
  await other.query('BEGIN');
  await other.query('SELECT FROM chat_runs WHERE session_id = ANY($1) FOR UPDATE', [
    locked.map((talk) => talk.session.id),
  ]);
  const late = locked.map((talk) => talk.say('late'));
  await untilBlocked(db);
  for (const word of ['Once', ' upon']) expect(await free.say(word)).toBe('live');
  await other.query('COMMIT');
  await other.end();
  expect(new Set(await Promise.all(late))).toEqual(new Set(['live']));
});

it('T4 a batch that Postgres refuses fails alone', async () => {
  const { made, talks } = writerOn(db);
  const [poisoned, ...others] = (await talks(4)) as [Talk, ...Talk[]];
  await db.query(`
    CREATE FUNCTION refuse_poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
    CREATE TRIGGER poison BEFORE INSERT ON part_deltas FOR EACH ROW WHEN (NEW.text = 'poison')
      EXECUTE FUNCTION refuse_poison()`);
  const [refused, ...landed] = await Promise.allSettled(
    [poisoned, ...others].map((talk, n) => talk.say(n === 0 ? 'poison' : 'fine')),
  );
  expect(made.shared).toHaveLength(1);
  expect(refused).toMatchObject({ status: 'rejected', reason: { message: 'poison' } });
  expect(landed).toEqual(others.map(() => ({ status: 'fulfilled', value: 'live' })));
  expect(await Promise.all(others.map((talk) => talk.text()))).toEqual(others.map(() => 'fine'));
  expect(await poisoned.text()).toBe('');
});

it('T4 a chunk of 10 MB is written alone, and meanwhile the other streams go on', async () => {
  const { made, before, talks } = writerOn(db);
  const [long, short] = (await talks(2)) as [Talk, Talk];
  const gate = new Gate();
  before.alone = () => gate.pass();
  const whole = 'x'.repeat(10 * 1024 * 1024);
  const written = long.say(whole);
  for (const word of ['Once', ' upon', ' a', ' time']) expect(await short.say(word)).toBe('live');
  gate.open();
  expect(await written).toBe('live');
  expect(made.alone).toEqual([long.session.id]);
  expect(made.shared.flat()).not.toContain(long.session.id);
  expect(await long.text()).toHaveLength(whole.length);
});

it('T4 a statement that does not return delays only the streams in it', async () => {
  const { made, before, talks } = writerOn(db);
  const [stuck, free] = (await talks(2)) as [Talk, Talk];
  const gate = new Gate();
  before.shared = (sessions) => (sessions.includes(stuck.session.id) ? gate.pass() : undefined);
  const late = stuck.say('late');
  await gate.reached;
  for (const word of ['Once', ' upon', ' a', ' time']) expect(await free.say(word)).toBe('live');
  gate.open();
  expect(await late).toBe('live');
  expect(made.shared.filter((sessions) => sessions.includes(stuck.session.id))).toHaveLength(1);
});
