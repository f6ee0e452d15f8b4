// The console's numbers, from rows with known times.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { expect, it } from 'vitest';
import { readTurns } from '../../store/console-turns.ts';
import { readNumbers } from '../../store/numbers.ts';
import { measuredRows, rows, Session } from './session.ts';

const db = await measuredRows();

const MINUTE = 60_000;

/** In the middle of a minute, ten minutes ago. */
const RECENTLY = Math.floor(Date.now() / MINUTE) * MINUTE - 9.5 * MINUTE;

/** Sets when a run was accepted, and in how many milliseconds it began and ended. */
async function timed(session: Session, run: number, { at, waited, took }: Record<'at' | 'waited' | 'took', number>) {
  const times = [at, at + waited, at + waited + took].map((ms) => new Date(ms));
  await db.query(
    'UPDATE chat_runs SET created_at = $3, started_at = $4, finished_at = $5 WHERE session_id = $1 AND seq = $2',
    [session.id, run, ...times],
  );
}

const work = (first_ms: number) => ({ worker: randomUUID(), attempt: 1, ms: 500, first_ms });
const usage = { input: 100, output: 20, reasoning: 3, cache_read: 4, cache_write: 5 };
const sum = (values: readonly (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0);
const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null);

/** A session of `user` with two turns of this hour, and one of two days ago. */
async function used(user: string): Promise<Session> {
  const session = await Session.at('chatting', db, { user });
  for (const [at, waited] of [
    [RECENTLY, 100],
    [RECENTLY, 300],
    [RECENTLY - 2 * 24 * 60 * MINUTE, 900],
  ] as const) {
    const run = (await session.say('hello'))['run_seq'] as number;
    await session.claim(run, [0, run, 1]);
    await session.settleStep(run, [0, run, 1], { usage, cost: 0.5, work: work(waited), end: true });
    await timed(session, run, { at, waited, took: 2_000 });
  }
  return session;
}

it('W6 U2 U3 numbers of a range: turns, times, steps, tokens and cost, of a user or of all', async () => {
  await used('nora');
  await used('olga');
  const hour = await readNumbers(db, { range: 'hour', user: 'nora' });
  expect([hour.turns!.finished.length, hour.step_ms, hour.user]).toEqual([60, MINUTE, 'nora']);
  expect([sum(hour.turns!.finished), sum(hour.turns!.open), sum(hour.turns!.error)]).toEqual([2, 0, 0]);
  expect([known(hour.turns!.waited.p50), known(hour.turns!.took.p95)]).toEqual([[200], [2_000]]);
  expect(sum((await readNumbers(db, { range: 'week', user: 'nora' })).turns!.finished)).toBe(3);
  expect(sum((await readNumbers(db, { range: 'day', user: null })).turns!.finished)).toBe(4);
  expect(sum((await readNumbers(db, { range: 'day', user: 'nobody' })).turns!.finished)).toBe(0);
  // The work was noted now.
  expect([sum(hour.work!.steps), sum(hour.work!.calls), sum(hour.work!.workers)]).toEqual([3, 0, 3]);
  const { tokens } = hour;
  expect(
    Object.fromEntries(Object.keys(usage).map((kind) => [kind, sum(tokens![kind as keyof typeof usage])])),
  ).toEqual(Object.fromEntries(Object.entries(usage).map(([kind, count]) => [kind, 3 * count])));
  expect(sum(tokens!.cost_usd)).toBeCloseTo(1.5);
});

it('W6 R6 failed turns and failed calls by their code, and what is open now', async () => {
  const session = await Session.at('chatting', db, { user: 'petra' });
  await session.say('hello');
  await session.claim(1, [0, 1, 1]);
  const failure = { code: 'RateLimited', model: 'test', status: 429, message: 'too many' };
  await rows(db, `SELECT log_provider_error($1, 1, '{0,1,1}', $2)`, [session.id, failure]);
  await session.settleRun(1, 'error', [0, 1, 1]);
  await (await Session.at('chatting', db, { user: 'petra' })).say('hello');
  const { errors, turns, now } = await readNumbers(db, { range: 'hour', user: 'petra' });
  expect(
    [errors!.turns, errors!.provider].map((codes) => codes.map(({ code, counts }) => [code, sum(counts)])),
  ).toEqual([[['RateLimited', 1]], [['RateLimited', 1]]]);
  expect([sum(turns!.error), sum(turns!.open)]).toEqual([1, 1]);
  expect(now).toMatchObject({ queued: 1, running: 0, waiting: 0, stuck: 0, workers: 0, lost_workers: 0 });
});

/** The blocks that `read` reads over a connection of its own. */
async function blocksOf(read: (client: pg.PoolClient) => Promise<unknown>): Promise<number> {
  const client = await db.connect();
  const blocks = async () => {
    await client.query('SELECT pg_stat_force_next_flush()');
    const sql = 'SELECT sum(reads + hits)::integer AS blocks FROM pg_stat_get_backend_io(pg_backend_pid())';
    return (await rows(client, sql))[0]!['blocks'] as number;
  };
  try {
    // The first one also reads the catalog.
    await read(client);
    const before = await blocks();
    await read(client);
    return (await blocks()) - before;
  } finally {
    client.release();
  }
}

it('W6 Q2 the failures of a page of turns are found without reading the event log', async () => {
  const session = await Session.saying(db, 'hello');
  const read = (client: pg.PoolClient) => readTurns(client, session.id, { limit: 50 });
  const before = await blocksOf(read);
  await db.query(
    `INSERT INTO session_events (session_id, seq, kind, actor, data)
     SELECT $1, 1000 + n, 'abort', 'user', jsonb_build_object('more', repeat('x', 400)) FROM generate_series(1, 20000) AS n`,
    [session.id],
  );
  await db.query('ANALYZE session_events');
  expect(await blocksOf(read)).toBeLessThan(before + 50);
});
