// What the sweeper claims, and the cost of a sweep: it depends on the runs that are due, not on those that are parked.
import fc from 'fast-check';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import type { Fence } from '../../domain/runs.ts';
import { createPool } from '../../store/db.ts';
import { noteStuck, stuckSessions } from '../../store/stuck.ts';
import { claimDueRuns, type DueRun } from '../../store/sweep.ts';
import { COUNTED, readOpenWork } from '../../store/work.ts';
import { AT_ONCE } from '../../worker/sweeper.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { freshRows, rows, Session } from './session.ts';

/** `PARKED_RUNS=1000000 npm test -- test/rows/sweep` measures a million, in about a minute. */
const PARKED = Number(process.env['PARKED_RUNS'] ?? 100_000);
const RUNS_PER_SESSION = 50;
const DUE = 150;
const MAX_BUFFERS = 5_000;

const makeDue = (db: pg.Pool) =>
  db.query(`UPDATE chat_runs SET check_at = now() - interval '1 second', updated_at = now() - interval '1 hour'
             WHERE check_at IS NOT NULL`);
const key = ({ session_id, run_seq }: DueRun) => `${session_id}/${run_seq}`;
const fence = (ordinal: number): Fence => [0, ordinal, 1];

/** Runs whose check is scheduled although their session cannot continue with them, or the other way round. */
const wronglyParked = (db: pg.Pool) =>
  rows(
    db,
    `SELECT r.session_id, r.seq, r.state, r.check_at FROM chat_runs r JOIN chat_sessions c USING (session_id)
      WHERE (r.check_at IS NOT NULL) <> (
        r.state IN ('queued', 'running') AND c.stuck_at IS NULL AND (r.state = 'running' OR c.paused_at IS NULL)
        AND NOT EXISTS (SELECT FROM chat_runs ahead WHERE ahead.session_id = r.session_id AND ahead.seq < r.seq
                           AND ahead.state IN ('queued', 'running', 'waiting')))`,
  );

describe('which runs are checked', () => {
  it('W7 exactly the run that a session can continue with, after any commands', async () => {
    const db = await freshRows();
    const actions = ['say', 'say', 'claim', 'finish', 'fail', 'abort', 'cancel', 'stuck', 'unstuck', 'close'] as const;
    const property = fc.asyncProperty(fc.array(fc.constantFrom(...actions), { maxLength: 14 }), async (given) => {
      const session = await Session.at('chatting', db);
      for (const [n, action] of given.entries()) {
        await carryOut(session, action, n);
        expect(await wronglyParked(db), given.slice(0, n + 1).join(' ')).toEqual([]);
      }
    });
    await fc.assert(property, { numRuns: 40 });
  });

  it('W7 a claimed run is not claimed again for a while, so a run that cannot be woken does not block others', async () => {
    const db = await freshRows();
    await Promise.all([Session.saying(db, 'one', 'two'), Session.saying(db, 'one')]);
    expect(await claimDueRuns(db, 1), 'for the first two seconds').toEqual([]);
    await makeDue(db);
    const [first, second, third] = [await claimDueRuns(db, 1), await claimDueRuns(db, 1), await claimDueRuns(db, 1)];
    expect([first, second, third]).toMatchObject([[{ run_seq: 1 }], [{ run_seq: 1 }], []]);
    expect(second[0]!.session_id).not.toBe(first[0]!.session_id);
  });

  it('W7 a run that writes is not claimed; one without writes for 30 s is claimed', async () => {
    const db = await freshRows();
    const [writes, silent] = await Promise.all([Session.saying(db, 'one'), Session.saying(db, 'one')]);
    for (const session of [writes, silent]) await session.claim(1, fence(1));
    await makeDue(db);
    await db.query('UPDATE chat_runs SET updated_at = now() WHERE session_id = $1', [writes.id]);
    expect(await claimDueRuns(db, 100)).toMatchObject([{ session_id: silent.id, state: 'running' }]);
    expect(await claimDueRuns(db, 100)).toEqual([]);
  });

  it('W7 several sweepers share the checks: none is claimed twice', async () => {
    const db = await freshRows();
    await parkedSessions(db, 'u', 30, 2);
    await makeDue(db);
    const claims = await Promise.all(Array.from({ length: 8 }, () => claimDueRuns(db, 10)));
    const claimed = claims.flat().map(key);
    while (claimed.length < 30) {
      const more = await claimDueRuns(db, 10);
      expect(more).not.toEqual([]);
      claimed.push(...more.map(key));
    }
    expect(new Set(claimed).size).toBe(claimed.length);
    expect(claimed).toHaveLength(30);
  });

  it('W7 a newer dead run is reached after 1,500 silent but live ones', async () => {
    const db = await freshRows();
    await parkedSessions(db, 'u', 1_500, 1);
    await db.query(`UPDATE chat_runs SET state = 'running'`);
    await makeDue(db);
    const dead = await Session.saying(db, 'one');
    await dead.claim(1, fence(1));
    await db.query(
      `UPDATE chat_runs SET check_at = now(), updated_at = now() - interval '31 seconds' WHERE session_id = $1`,
      [dead.id],
    );
    for (let n = 0; n < 1_500 / AT_ONCE; n += 1) expect(await claimDueRuns(db, AT_ONCE)).toHaveLength(AT_ONCE);
    expect(await claimDueRuns(db, AT_ONCE)).toMatchObject([{ session_id: dead.id }]);
  });
});

type Action = 'say' | 'claim' | 'finish' | 'fail' | 'abort' | 'cancel' | 'stuck' | 'unstuck' | 'close';

/** Applies the action to a matching run, if there is one. */
async function carryOut(session: Session, action: Action, n: number): Promise<void> {
  const runs = await session.runs();
  const open = runs.filter(({ state }) => state === 'queued' || state === 'running');
  const head = open[0]?.['seq'] as number | undefined;
  const claimed = open.find(({ state }) => state === 'running');
  if (action === 'say') await session.say(`message ${n}`);
  else if (action === 'claim' && head !== undefined) await session.claim(head, fence(n + 1));
  else if (action === 'finish' && claimed)
    await session.settleStep(claimed['seq'] as number, claimed['fence'] as Fence, { end: true });
  else if (action === 'fail' && head !== undefined) await session.settleRun(head, 'error');
  else if (action === 'abort' && (await session.abort())['aborted']) await session.settleRun(head!, 'aborted');
  else if (action === 'cancel' && open.length > 0) await session.cancelQueued(open.at(-1)!['message_id'] as string);
  else if (action === 'stuck') await noteStuck(session.db, session.id, 'NonDeterministicError');
  else if (action === 'unstuck') await noteStuck(session.db, session.id, null);
  else if (action === 'close') await session.close(true);
}

/** New sessions of `user` with queued runs each, in few statements; triggers and constraints apply. */
async function parkedSessions(db: pg.Pool, user: string, sessions: number, runs: number): Promise<void> {
  await db.query(
    `SELECT open_session('ses_' || substr(md5($1 || n), 1, 12) || rpad(n::text, 14, 'x'), $1, 'a', NULL, NULL, '{}', NULL)
       FROM generate_series(1, $2::integer) AS n`,
    [user, sessions],
  );
  await db.query(
    `INSERT INTO chat_runs (session_id, seq, message_id, answer_id)
     SELECT session_id, n, session_id || n, 'a' || n
       FROM sessions CROSS JOIN generate_series(1, $2::integer) AS n WHERE user_id = $1 ORDER BY 1, 2`,
    [user, runs],
  );
}

interface Explained {
  Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number };
  'Execution Time': number;
}

/** Sequential scans of the large tables that this connection has made and not reported yet. */
async function sequentialScans(client: pg.ClientBase): Promise<number> {
  const [found] = await rows(
    client,
    `SELECT sum(seq_scan)::integer AS scans FROM pg_stat_xact_user_tables
      WHERE relname IN ('chat_runs', 'chat_sessions', 'sessions')`,
  );
  return found!['scans'] as number;
}

/** The fastest of ten executions, each rolled back, because other processes may take the CPU. */
async function costOf(db: pg.Pool, sql: string, params: unknown[]) {
  const costs: { ms: number; buffers: number; scans: number }[] = [];
  const client = await db.connect();
  try {
    for (let n = 0; n < 10; n += 1) {
      await client.query('BEGIN');
      // Postgres reports statistics about once a second: what the connection scanned before is not in them yet either.
      const before = await sequentialScans(client);
      const [row] = await rows(client, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`, params);
      const scans = (await sequentialScans(client)) - before;
      await client.query('ROLLBACK');
      const [{ Plan: plan, 'Execution Time': ms }] = row!['QUERY PLAN'] as [Explained];
      const buffers = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      costs.push({ ms, buffers, scans });
    }
  } finally {
    client.release();
  }
  return costs.toSorted((one, other) => one.ms - other.ms)[0]!;
}

it('Q1 W7 a sweep reads at most 5,000 buffers and no whole table, however many runs are parked', async () => {
  const db = createPool(`${await freshDatabase()}?statement_timeout=600000&query_timeout=610000`);
  afterFile(() => db.end());
  const third = Math.ceil(PARKED / RUNS_PER_SESSION / 3);
  for (const user of ['paused', 'stuck', 'behind']) await parkedSessions(db, user, third, RUNS_PER_SESSION);
  const of = (user: string) => `session_id IN (SELECT session_id FROM sessions WHERE user_id = '${user}')`;
  await db.query(`UPDATE chat_sessions SET paused_at = now() WHERE ${of('paused')}`);
  await db.query(`SELECT note_stuck(session_id, 'x') FROM sessions WHERE user_id = 'stuck'`);
  await db.query(`UPDATE chat_runs SET state = 'running' WHERE seq = 1 AND ${of('behind')}`);
  const sweep = () => costOf(db, 'SELECT * FROM claim_due_runs($1)', [AT_ONCE]);
  const scrape = () => costOf(db, 'SELECT * FROM open_work($1)', [COUNTED]);
  const costs = { idle: await sweep(), scrape: await scrape() };
  // More are due than a sweep may claim.
  await parkedSessions(db, 'due', 2 * DUE, 1);
  await db.query(`UPDATE chat_runs SET state = 'running' WHERE session_id IN (
                    SELECT session_id FROM sessions WHERE user_id = 'due' ORDER BY 1 LIMIT ${DUE})`);
  await db.query(`UPDATE chat_runs SET check_at = now() - interval '1 second', updated_at = now() - interval '1 hour'
                   WHERE ${of('due')}`);
  const full = { before: await sweep(), after: await db.query('ANALYZE').then(sweep) };
  console.log(JSON.stringify({ parked: PARKED, ...costs, full }));
  for (const cost of [costs.idle, full.before, full.after]) {
    expect(cost.scans, 'sequential scans').toBe(0);
    expect(cost.buffers).toBeLessThan(MAX_BUFFERS);
  }
  expect(costs.scrape.scans, 'sequential scans').toBe(0);
  expect(costs.scrape.buffers).toBeLessThan(4 * COUNTED);
  expect(await claimDueRuns(db, AT_ONCE)).toHaveLength(2 * AT_ONCE);
  const work = await readOpenWork(db);
  expect(work).toMatchObject({ queued: COUNTED, running: Math.min(COUNTED, third + DUE), waiting: 0 });
  expect(work).toMatchObject({ stuck: Math.min(COUNTED, third), oldest_s: expect.any(Number) as number });
  expect(await stuckSessions(db, [], 100)).toHaveLength(100);
}, 900_000);
