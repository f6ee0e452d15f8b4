// Many readers of answers in one process, which reads for all of them together.
import { Client, Connection } from '@temporalio/client';
import type { UIMessageChunk } from 'ai';
import type pg from 'pg';
import { expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import type { Fence } from '../../domain/runs.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { reduced } from '../../tools/test-kit/reduce.ts';
import { slowStatements, startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';
import { freshRows, Session, textPart } from '../rows/session.ts';

const FENCE: Fence = [0, 1, 1];
const db = await freshRows();
const bus = createMemoryBus();

/** A statement that reads answers; `maxBytes` is null if it reads one alone. */
interface Statement {
  requests: { session_id: string }[];
  maxBytes: number | null;
}

/** A client whose statements that read answers are noted, and wait for `before`. */
function clientOf(pool: pg.Pool, before: (statement: Statement) => Promise<void> = async () => {}) {
  const statements: Statement[] = [];
  /** The sessions of each statement that reads what readers of waiting answers are told. */
  const statusReads: string[][] = [];
  /** The requests of each statement that reads sessions for followers of their events. */
  const sessionReads: Statement['requests'][] = [];
  const query = pool.query.bind(pool) as (statement: unknown) => Promise<unknown>;
  const noted = async (statement: { text: string; values: [string, number | null] }) => {
    if (statement.text.includes('read_answers(')) {
      const [requests, maxBytes] = statement.values;
      statements.push({ requests: JSON.parse(requests), maxBytes });
      await before(statements.at(-1)!);
    }
    if (statement.text.includes('from_seq')) {
      sessionReads.push(JSON.parse(statement.values[0]) as Statement['requests']);
    }
    if (statement.text.includes('asked.place')) statusReads.push(statement.values[0] as unknown as string[]);
    return query(statement);
  };
  pool.query = noted as never;
  const failures: unknown[] = [];
  const client = createClient({
    database: pool,
    bus,
    temporal: new Client({ connection: Connection.lazy() }),
    log: { warn: (fields) => void failures.push(fields) },
  });
  afterFile(() => client.end().then(() => pool.end()));
  return { client, statements, sessionReads, statusReads, failures };
}

const ownPool = (url = db.options.connectionString!) => patientPool(url);

/** An answer that grows by one text. */
class Growing {
  readonly session: Session;
  private readonly part = textPart(0, '');
  private text = '';

  private constructor(session: Session) {
    this.session = session;
  }

  static async begin(): Promise<Growing> {
    const answer = new Growing(await Session.saying(db, 'hello'));
    await answer.session.claim(1, FENCE);
    await answer.session.append(1, FENCE, [answer.part]);
    return answer;
  }

  async grow(text: string): Promise<void> {
    const delta = { part_id: this.part.id, start: this.text.length, text };
    await this.session.append(1, FENCE, [], [delta], null);
    this.text += text;
    this.publish();
  }

  async end(): Promise<void> {
    const data = { type: 'text', text: this.text, state: 'done' };
    await this.session.settleStep(1, FENCE, { parts: [{ ...this.part, data, settled: true }], end: true });
    this.publish();
  }

  publish(): void {
    bus.publish({ session: this.session.id, run: 1, kind: 'stream' });
  }

  follow(client: PerdureClient, user = 'ada'): Reader {
    return new Reader(client.follow(user, this.session.id, 1, { signal: stop.signal }));
  }
}

const stop = new AbortController();
afterFile(() => stop.abort());

class Reader {
  readonly chunks: UIMessageChunk[] = [];
  readonly ended: Promise<unknown>;

  constructor(stream: AsyncIterable<UIMessageChunk>) {
    this.ended = (async () => {
      for await (const chunk of stream) this.chunks.push(chunk);
    })().catch((error: unknown) => error);
  }

  get text(): string {
    return this.chunks.map((chunk) => (chunk.type === 'text-delta' ? chunk.delta : '')).join('');
  }
}

const untilAllHave = (readers: Reader[], text: string) =>
  eventually(() => expect(new Set(readers.map((reader) => reader.text))).toEqual(new Set([text])));

it('R2 fifty readers of one answer, who began at different times, cost about as many reads as one', async () => {
  const { client, statements } = clientOf(ownPool());
  const answer = await Growing.begin();
  const readers: Reader[] = [];
  let text = '';
  for (let n = 0; n < 30; n += 1) {
    if (n % 3 === 0) for (let more = 0; more < 5; more += 1) readers.push(answer.follow(client));
    await answer.grow(`word ${n} `);
    text += `word ${n} `;
    await untilAllHave(readers, text);
  }
  await answer.end();
  await Promise.all(readers.map(({ ended }) => ended));
  expect(readers).toHaveLength(50);
  for (const { chunks } of readers) {
    expect(await reduced(chunks)).toMatchObject({ parts: [{ type: 'text', text, state: 'done' }] });
  }
  // One for each of thirty texts, ten first readings and the end; those of the change poll; some read twice.
  const read = statements.flatMap(({ requests }) => requests).length;
  console.log(`fifty readers of an answer with 31 changes: ${read} reads in ${statements.length} statements`);
  expect(read).toBeLessThan(100);
});

it('Q2 the readers of many answers continue while a large one is read, alone', async () => {
  const gate = Promise.withResolvers<void>();
  const { client, statements } = clientOf(ownPool(), async ({ maxBytes }) => {
    if (maxBytes === null) await gate.promise;
  });
  const large = await Growing.begin();
  const megabyte = 'large '.repeat(170_000);
  for (let n = 0; n < 10; n += 1) await large.grow(megabyte);
  const answers = await Promise.all(Array.from({ length: 10 }, () => Growing.begin()));
  const waiting = large.follow(client);
  const readers = answers.map((answer) => answer.follow(client));
  await eventually(() => expect(statements.some(({ maxBytes }) => maxBytes === null)).toBe(true));
  for (const n of [1, 2, 3]) {
    await Promise.all(answers.map((answer) => answer.grow('word ')));
    await untilAllHave(readers, 'word '.repeat(n));
  }
  expect(waiting.chunks).toEqual([]);
  gate.resolve();
  await Promise.all([large, ...answers].map((answer) => answer.end()));
  await Promise.all([waiting, ...readers].map(({ ended }) => ended));
  expect(waiting.text).toBe(megabyte.repeat(10));
  const alone = statements.filter(({ maxBytes }) => maxBytes === null);
  expect(new Set(alone.flatMap(({ requests }) => requests.map((each) => each.session_id)))).toEqual(
    new Set([large.session.id]),
  );
});

it('R2 Q3 each request is for its user: others do not find the session, and readers of the same answer do', async () => {
  const { client, statements } = clientOf(ownPool());
  const answer = await Growing.begin();
  await answer.grow('hello');
  const [ada, eve] = [answer.follow(client), answer.follow(client, 'eve')];
  const other = new Reader(client.follow('ada', answer.session.id, 2));
  const none = new Reader(client.follow('ada', 'ses_none', 1));
  for (const reader of [eve, other, none]) {
    expect(await reader.ended).toMatchObject({ code: 'SessionNotFound' });
    expect(reader.chunks).toEqual([]);
  }
  await untilAllHave([ada], 'hello');
  expect(statements[0]!.requests).toHaveLength(4);
});

it('R2 a request that Postgres refuses does not fail those in the same statement', async () => {
  const { client, statements, failures } = clientOf(ownPool());
  const answers = await Promise.all(Array.from({ length: 5 }, () => Growing.begin()));
  const bad = answers[0]!.follow(client, 'no \0 in a text of Postgres');
  const readers = answers.map((answer) => answer.follow(client));
  await Promise.all(answers.map((answer) => answer.grow('hello')));
  await untilAllHave(readers, 'hello');
  expect(statements[0]!.requests).toHaveLength(6);
  expect(bad.chunks).toEqual([]);
  await eventually(() => expect(failures.length).toBeGreaterThan(1));
  expect(new Set(failures.map((each) => (each as { session: string }).session))).toEqual(
    new Set([answers[0]!.session.id]),
  );
});

it('R2 a hundred readers while every statement takes long: all read their whole answers, in few statements', async () => {
  const url = new URL(db.options.connectionString!);
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  afterFile(() => proxy.close());
  url.host = `${proxy.host}:${proxy.port}`;
  const { client, statements } = clientOf(ownPool(url.href));
  const answers = await Promise.all(Array.from({ length: 100 }, () => Growing.begin()));
  proxy.holdBack = slowStatements(() => 150);
  const readers = answers.map((answer) => answer.follow(client));
  for (let n = 0; n < 20; n += 1) await Promise.all(answers.map((answer) => answer.grow(`word ${n} `)));
  await Promise.all(answers.map((answer) => answer.end()));
  await Promise.all(readers.map(({ ended }) => ended));
  const text = Array.from({ length: 20 }, (_, n) => `word ${n} `).join('');
  await untilAllHave(readers, text);
  expect(readers.map(({ chunks }) => chunks.at(-1)?.type)).toEqual(readers.map(() => 'finish'));
  console.log(`a hundred answers with 21 changes each, Postgres slow: ${statements.length} statements`);
  // However long it takes: a statement reads what has grown since the last one.
  const read = statements.flatMap(({ requests }) => requests).length;
  expect(read / statements.length, 'answers a statement').toBeGreaterThan(10);
  proxy.holdBack = undefined;
});

it('R2 the readers of many waiting answers are told by few statements', async () => {
  const { client, statusReads } = clientOf(ownPool());
  const sessions = await Promise.all(Array.from({ length: 50 }, () => Session.saying(db, 'first', 'second')));
  const readers = sessions.flatMap(({ id }) =>
    [0, 1].map(() => new Reader(client.follow('ada', id, 2, { signal: stop.signal }))),
  );
  await eventually(() => expect(readers.map(({ chunks }) => chunks.length)).toEqual(readers.map(() => 2)));
  for (const { chunks } of readers) expect(chunks[1]).toMatchObject({ type: 'data-status', data: { position: 1 } });
  expect(statusReads.length).toBeLessThan(10);
  expect(statusReads.flat()).toHaveLength(50);
});

it('R5 followers of fifty sessions that change together share few statements, and followers of one session its reads', async () => {
  const { client, sessionReads } = clientOf(ownPool());
  const sessions = await Promise.all(Array.from({ length: 50 }, () => Session.at('chatting', db)));
  const events = sessions.flatMap(({ id }) => [0, 1].map(() => client.events('ada', id, { signal: stop.signal })));
  for (const first of await Promise.all(events.map((each) => each.next()))) {
    expect(first).toMatchObject({ value: { event: 'status' } });
  }
  const changes = events.map((each) => each.next());
  sessionReads.length = 0;
  await Promise.all(sessions.map((session) => session.raise('start_build')));
  for (const { id } of sessions) bus.publish({ session: id, kind: 'status' });
  for (const { value } of await Promise.all(changes)) {
    expect(value).toMatchObject({ event: 'session', data: { phase: 'building' } });
  }
  // The change poll may have seen some of the changes before.
  expect(sessionReads.length).toBeLessThan(15);
  expect(sessionReads.flat().length).toBeLessThan(150);
  const stranger = client.events('eve', sessions[0]!.id).next();
  await expect(stranger).rejects.toMatchObject({ code: 'SessionNotFound' });
});
