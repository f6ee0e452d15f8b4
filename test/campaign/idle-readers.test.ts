// The cost of readers of idle sessions, and that they receive every change.
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import type { Bus } from '../../bus/bus.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { withoutFunction } from '../../tools/test-kit/without-function.ts';

const READERS = 200;
const SECONDS = 5;

let url: string;
let temporal: Client;
let db: pg.Pool;
/** The bus of another process, on which the test publishes pointers. */
let bus: Bus;
let client: PerdureClient;
/** A second client, like another process of the system; its statements are counted, each of which is a transaction. */
let counted: PerdureClient;
let pool: pg.Pool;
let transactions = 0;
/** Of the second client. */
let polls = 0;
beforeAll(async () => {
  url = await freshDatabase();
  db = patientPool(url);
  bus = createMemoryBus();
  temporal = temporalClient({ connectionOptions: { address: '127.0.0.1:1' }, namespace: 'default' });
  client = createClient({ database: url, bus, temporal });
  pool = patientPool(url);
  pool.on('acquire', () => void transactions++);
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  vi.spyOn(pool, 'query').mockImplementation((...args: unknown[]) => {
    if (JSON.stringify(args[0]).includes('changed_sessions')) polls += 1;
    return query(...args) as never;
  });
  counted = createClient({ database: pool, bus, temporal });
});
afterAll(async () => {
  await Promise.all([client.end(), counted.end()]);
  await Promise.all([bus.close(), db.end(), pool.end()]);
});

async function openSession(user = 'ada'): Promise<string> {
  const id = newId('ses');
  await db.query(`SELECT open_session($1, $2, 'site-builder', NULL, NULL, '{}', NULL)`, [id, user]);
  return id;
}

/** A claimed run whose tool is running without output. */
async function openRun(session: string): Promise<void> {
  const parts = JSON.stringify([{ id: newId('prt'), type: 'text', data: { type: 'text', text: 'hello' } }]);
  const message = [session, 'ada', newId('msg'), newId('msg'), parts];
  await db.query(`SELECT accept_message($1, $2, $3, $4, $5, '{}', NULL, 100)`, message);
  await db.query(`SELECT claim_step($1, 1, 0, '{1,1,1}')`, [session]);
}

interface Reader {
  received: unknown[];
  failure: () => unknown;
}

const readers = new AbortController();
const reading: Promise<unknown>[] = [];
afterAll(async () => {
  readers.abort();
  await Promise.all(reading);
});

function follow(stream: AsyncGenerator): Reader {
  const received: unknown[] = [];
  let failure: unknown;
  const read = async () => {
    for await (const item of stream) received.push(item);
  };
  reading.push(read().catch((error: unknown) => (failure = error)));
  return { received, failure: () => failure };
}
const events = (session: string, { user = 'ada', of = client } = {}) =>
  follow(of.events(user, session, { signal: readers.signal }));
const answer = (session: string, { of = client } = {}) =>
  follow(of.follow('ada', session, 1, { signal: readers.signal }));

/** Waits until `reader` receives a new event; returns the number of polls that began meanwhile. */
async function untilReceived(reader: Reader, change: () => Promise<unknown>): Promise<number> {
  const before = reader.received.length;
  await change();
  const from = polls;
  await eventually(() => expect(reader.received.length).toBeGreaterThan(before));
  return polls - from;
}

it('R5 R2 200 idle readers cost at most 20 transactions a second, and the next poll finds a change without a pointer', async () => {
  const sessions = await Promise.all(Array.from({ length: READERS }, () => openSession()));
  const [working, silent] = [sessions[0]!, sessions[1]!];
  await Promise.all(sessions.slice(0, READERS / 2).map(openRun));
  const all = [
    ...sessions.slice(0, READERS / 2).map((session) => answer(session, { of: counted })),
    ...sessions.slice(READERS / 2).map((session) => events(session, { of: counted })),
  ];
  const [growing, follower] = [all[0]!, events(silent, { of: counted })];
  await eventually(() =>
    expect([...all.slice(READERS / 2), follower].every(({ received }) => received.length > 0)).toBe(true),
  );
  await delay(2_000);
  const [before, from] = [transactions, performance.now()];
  await delay(SECONDS * 1_000);
  const perSecond = ((transactions - before) * 1_000) / (performance.now() - from);
  console.log(`${READERS} idle readers: ${perSecond} transactions a second`);
  expect(perSecond, 'transactions a second').toBeLessThanOrEqual(20);

  // No pointer is published, as if it were lost.
  const parts = [{ id: 'p1', index: 0, type: 'text', data: { type: 'text', text: '', state: 'streaming' } }];
  const append = (deltas: unknown[], of: unknown[] = []) =>
    db.query(`SELECT append_stream($1, 1, '{1,1,1}', '{}', $2, $3)`, [
      working,
      JSON.stringify(of),
      JSON.stringify(deltas),
    ]);
  const lost = [
    await untilReceived(growing, () => append([{ part_id: 'p1', start: 0, text: 'The ' }], parts)),
    await untilReceived(growing, () => append([{ part_id: 'p1', start: 4, text: 'end.' }])),
    await untilReceived(follower, () => db.query('SELECT write_phase($1, $2)', [silent, 'start_build'])),
    await untilReceived(follower, () =>
      db.query(`SELECT note_retry($1, 1, '{1,1,1}', $2)`, [silent, { attempt: 2, reason: 'busy', at: Date.now() }]),
    ),
    await untilReceived(follower, () =>
      db.query(`SELECT settle_run($1, 1, '{1,1,1}', 'aborted', NULL, NULL, NULL)`, [silent]),
    ),
  ];
  // A poll that had begun before the change need not find it.
  for (const each of lost) expect(each, 'polls').toBeLessThanOrEqual(2);
});

it('R5 a reader whose pointer arrives does not wait for a poll', async () => {
  const session = await openSession();
  const reader = events(session);
  await eventually(() => expect(reader.received).toHaveLength(1));
  onTestFinished(await withoutFunction(db, 'changed_sessions'));
  await db.query('SELECT write_phase($1, $2)', [session, 'start_build']);
  bus.publish({ session, kind: 'status' });
  await eventually(() => expect(reader.received).toHaveLength(2));
});

it('R5 readers of a deleted session end with SessionNotFound, and no other readers do', async () => {
  const [gone, kept] = [await openSession(), await openSession()];
  const [one, other] = [events(gone), events(kept)];
  await eventually(() => expect([one.received.length, other.received.length]).toEqual([1, 1]));
  await db.query('ALTER TABLE session_events DISABLE TRIGGER guard');
  await db.query('DELETE FROM session_events WHERE session_id = $1', [gone]);
  await db.query('DELETE FROM chat_sessions WHERE session_id = $1', [gone]);
  await db.query('DELETE FROM sessions WHERE session_id = $1', [gone]);
  await db.query('ALTER TABLE session_events ENABLE TRIGGER guard');
  await eventually(() => expect(one.failure()).toMatchObject({ code: 'SessionNotFound' }));
  expect(other.failure()).toBeUndefined();
  const stranger = events(kept, { user: 'eve' });
  await eventually(() => expect(stranger.failure()).toMatchObject({ code: 'SessionNotFound' }));
});

it('R2 a failed poll disconnects no reader, and missed changes are sent when polling works again', async () => {
  const session = await openSession();
  const reader = events(session);
  await eventually(() => expect(reader.received).toHaveLength(1));
  const giveBack = await withoutFunction(db, 'changed_sessions');
  await db.query('SELECT write_phase($1, $2)', [session, 'start_build']);
  await delay(2_000);
  expect(reader.received).toHaveLength(1);
  await giveBack();
  await eventually(() => expect(reader.received).toHaveLength(2));
  expect(reader.failure()).toBeUndefined();
});

it('S9 readers that wait for slow statements do not use the connections for accepting messages', async () => {
  const session = await openSession();
  const users = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => ({ user: `u${n}`, id: await openSession(`u${n}`) })),
  );
  const longer = ['lock_timeout', 'statement_timeout', 'query_timeout'].map((name) => `${name}=60000`).join('&');
  const patient = createClient({ database: `${url}${url.includes('?') ? '&' : '?'}${longer}`, bus, temporal });
  onTestFinished(() => patient.end());
  const blocker = await db.connect();
  await blocker.query('BEGIN');
  // Read by every rendezvous, but not to accept a message.
  await blocker.query('LOCK TABLE session_aliases IN ACCESS EXCLUSIVE MODE');
  const all = users.map(({ user }) => follow(patient.rendezvous(user, { signal: readers.signal })));
  const waiting = async () => {
    const { rows } = await db.query<{ count: number }>(
      `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return rows[0]!.count;
  };
  await eventually(async () => expect(await waiting()).toBe(8));
  // If it waited for a reader, it would wait longer than the test.
  await patient.submit('ada', session, { text: 'hello' });
  expect(await waiting()).toBe(8);
  await blocker.query('COMMIT');
  blocker.release();
  const isReady = ({ received }: Reader) => received.some((event) => (event as { event: string }).event === 'ready');
  await eventually(() => expect(all.every(isReady)).toBe(true));
});
