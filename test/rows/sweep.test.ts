// What the sweeper claims, and the cost of a sweep: it depends on the runs that are due, not on those that are parked.
import fc from 'fast-check';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { Fence } from '../../domain/runs.ts';
import { COUNTED, readOpenWork } from '../../store/open-work.ts';
import { noteStuck, stuckWorkflows } from '../../store/stuck.ts';
import { claimDueRuns, type DueRun } from '../../store/sweep.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { WAKES_AT_ONCE } from '../../worker/periodic/sweep-runs.ts';
import { answer, asks } from './asking.ts';
import { freshRows, measuredRows, rows, Session } from './session.ts';

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
    await fc.assert(property, cases(40));
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

  it('W7 a call that takes hours is checked ever more seldom, up to every 5 min, and 30 s after its end', async () => {
    const db = await freshRows();
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], fence(1));
    await session.beginTool(run, fence(2), 'call_1');
    const untilCheck = async () => {
      const sql = 'SELECT extract(epoch FROM check_at - now())::float AS s FROM chat_runs WHERE session_id = $1';
      return Math.round((await rows(db, sql, [session.id]))[0]!['s'] as number);
    };
    for (const [silent, until] of [
      [31, 31],
      [100, 100],
      [7_200, 300],
    ] as const) {
      await db.query(
        `UPDATE chat_runs SET check_at = now(), updated_at = now() - $2 * interval '1 second' WHERE session_id = $1`,
        [session.id, silent],
      );
      expect(await claimDueRuns(db, 1)).toMatchObject([{ session_id: session.id, state: 'running' }]);
      expect(Math.abs((await untilCheck()) - until)).toBeLessThanOrEqual(2);
    }
    await session.finishTool(run, fence(2), 'call_1');
    expect(await untilCheck()).toBeLessThanOrEqual(30);
  });

  /** A session whose head start has come to a call that waits, while nobody has told its workflow. */
  async function waitingUnknown(db: pg.Pool, raise: object): Promise<Session> {
    const session = await Session.at('chatting', db);
    const run = await session.runWithCalls(['call_1'], [0, 1, 0]);
    expect(await session.beginTool(run, [0, 2, 0], 'call_1', raise)).toMatchObject({ kind: 'waiting' });
    return session;
  }

  it('W7 R5 one that waits is claimed until its workflow has come to its call, and then not any more', async () => {
    const db = await freshRows();
    const [asking, page] = [await waitingUnknown(db, asks('call_1')), await waitingUnknown(db, { page_ms: 3_600_000 })];
    const both = [asking.id, page.id].toSorted();
    const claimed = async () =>
      (await claimDueRuns(db, 100)).map(({ session_id, state }) => `${session_id} ${state}`).toSorted();
    expect(await claimed(), 'for the first two seconds').toEqual([]);
    for (let n = 0; n < 2; n += 1) {
      await makeDue(db);
      // Its workflow may have never been started, so it is woken in any case.
      expect(await claimed()).toEqual(both.map((id) => `${id} queued`));
      expect(await claimed()).toEqual([]);
      for (const each of [asking, page]) await each.beginTool(1, [0, 3 + n, 0], 'call_1');
    }
    for (const each of [asking, page]) {
      expect(await each.beginTool(1, [1, 1, 1], 'call_1')).toMatchObject({ kind: 'waiting' });
    }
    expect(await asking.run(1)).toMatchObject({ state: 'waiting', head_start_at: null, check_at: null });
    const { check_at, waiting } = (await page.run(1)) as { check_at: Date; waiting: { until: string } };
    expect(check_at.getTime(), 'when the page is too late').toBe(Date.parse(waiting.until) + 2_000);
    await makeDue(db);
    expect(await claimed()).toEqual([`${page.id} running`]);
  });

  it('W7 one that was answered before its workflow has come to its call is claimed like any that goes on', async () => {
    const db = await freshRows();
    const session = await waitingUnknown(db, asks('call_1'));
    expect(await answer(session, 'once')).toMatchObject({ ok: true });
    await makeDue(db);
    expect(await claimDueRuns(db, 100)).toMatchObject([{ session_id: session.id, state: 'queued' }]);
  });

  it(
    'Q1 10,000 sessions that wait cost a sweep nothing, and the index that it reads has none of them',
    async () => {
      const db = await measuredRows();
      const MANY = 10_000;
      await parkedSessions(db, 'waiting', MANY, 1);
      await db.query(`UPDATE chat_runs SET state = 'running'`);
      await db.query(`SELECT begin_waiting(session_id, 1, 'call_1', NULL) FROM chat_runs`);
      expect(await rows(db, 'SELECT count(*)::integer AS n FROM chat_runs WHERE check_at IS NOT NULL')).toEqual([
        { n: 0 },
      ]);
      expect(await claimDueRuns(db, WAKES_AT_ONCE)).toEqual([]);
      const { buffers, scans } = await vacuumedCostOf(db, 'SELECT * FROM claim_due_runs($1)', [WAKES_AT_ONCE]);
      expect(scans).toBe(0);
      expect(buffers).toBeLessThan(100);
    },
    patient(300_000),
  );

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
    for (let n = 0; n < 1_500 / WAKES_AT_ONCE; n += 1)
      expect(await claimDueRuns(db, WAKES_AT_ONCE)).toHaveLength(WAKES_AT_ONCE);
    expect(await claimDueRuns(db, WAKES_AT_ONCE)).toMatchObject([{ session_id: dead.id }]);
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
  else if (action === 'stuck')
    await noteStuck(session.db, { id: session.id, kind: 'session' }, 'NonDeterministicError');
  else if (action === 'unstuck') await noteStuck(session.db, { id: session.id, kind: 'session' }, null);
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

/**
 * The least of ten executions, each rolled back: other processes may take the CPU, and each execution leaves dead rows that
 * the next ones read.
 */
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
  const least = (what: 'ms' | 'buffers') => Math.min(...costs.map((cost) => cost[what]));
  return { ms: least('ms'), buffers: least('buffers'), scans: Math.max(...costs.map(({ scans }) => scans)) };
}

/** The cost without what earlier updates have left behind in indexes; `db` has no snapshot that would keep it. */
async function vacuumedCostOf(db: pg.Pool, sql: string, params: unknown[]) {
  await db.query('VACUUM chat_runs, chat_sessions');
  return costOf(db, sql, params);
}

it(
  'Q1 W7 a sweep reads at most 5,000 buffers and no whole table, however many runs are parked',
  async () => {
    const db = await measuredRows();
    const third = Math.ceil(PARKED / RUNS_PER_SESSION / 3);
    for (const user of ['paused', 'stuck', 'behind']) await parkedSessions(db, user, third, RUNS_PER_SESSION);
    const of = (user: string) => `session_id IN (SELECT session_id FROM sessions WHERE user_id = '${user}')`;
    await db.query(`UPDATE chat_sessions SET paused_at = now() WHERE ${of('paused')}`);
    await db.query(`SELECT note_stuck(session_id, 'x') FROM sessions WHERE user_id = 'stuck'`);
    await db.query(`UPDATE chat_runs SET state = 'running' WHERE seq = 1 AND ${of('behind')}`);
    const sweep = () => vacuumedCostOf(db, 'SELECT * FROM claim_due_runs($1)', [WAKES_AT_ONCE]);
    const scrape = () => vacuumedCostOf(db, 'SELECT * FROM open_work($1)', [COUNTED]);
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
    expect(await claimDueRuns(db, WAKES_AT_ONCE)).toHaveLength(2 * WAKES_AT_ONCE);
    const work = await readOpenWork(db);
    expect(work).toMatchObject({ queued: COUNTED, running: Math.min(COUNTED, third + DUE), waiting: 0 });
    expect(work).toMatchObject({ stuck: Math.min(COUNTED, third), oldest_s: expect.any(Number) as number });
    expect(await stuckWorkflows(db, [], 100)).toHaveLength(100);
  },
  patient(900_000),
);
