import pg from 'pg';
import { z } from 'zod';
import { type ConsoleNumbers, NUMBER_RANGES, type numberRange } from '../wire/numbers.ts';
import { type Db, many } from './db.ts';
import { type Now, readNow } from './numbers-now.ts';

// The console's numbers. They come from rows, because these cover all processes and survive their restarts. Each group is one
// statement over one time range, which a BRIN index on its time serves.

/** What `readNumbers` reads: all but what only a host knows. */
export type StoredNumbers = Omit<ConsoleNumbers, 'now'> & { now: Now };

/** Time limit of a statement: the numbers must not hold up other readers. */
const STATEMENT_MS = 3_000;
/** SQLSTATE query_canceled: the time limit has passed. */
const CANCELED = '57014';

/** The time range, and whose sessions; null: those of all users. */
interface Asked {
  range: z.output<typeof numberRange>;
  user: string | null;
}

/** Reads the numbers of a range that ends now, by this process's clock. A group is null if reading it takes too long. */
export async function readNumbers(pool: pg.Pool, { range, user }: Asked): Promise<StoredNumbers> {
  const { ms, step } = NUMBER_RANGES[range];
  const to = Math.ceil((Date.now() + 1) / step) * step;
  const within: Within = { from: new Date(to - ms), to: new Date(to), step, parts: ms / step, user };
  const read = <T>(group: (db: Db, of: Within) => Promise<T>) => inTime(pool, (db) => group(db, within));
  // One after the other, over one connection at a time.
  const turns = await read(readTurns);
  const work = await read(readWork);
  const tokens = await read(readTokens);
  const errors = await read(readErrors);
  return {
    ...{ range, from: within.from.toISOString(), step_ms: step, user },
    ...{ turns, work, tokens, errors },
    now: await readNow(pool, user),
  };
}

/** Null: it took too long. */
async function inTime<T>(pool: pg.Pool, read: (db: Db) => Promise<T>): Promise<T | null> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS}`);
    return await read(client);
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === CANCELED) return null;
    throw error;
  } finally {
    await client.query('ROLLBACK').catch((error: unknown) => (broken = error as Error));
    client.release(broken);
  }
}

interface Within {
  from: Date;
  to: Date;
  /** Length of a part, in milliseconds. */
  step: number;
  parts: number;
  user: string | null;
}

/** The number of the part in which a time lies. */
const partOf = (time: string) =>
  `floor(extract(epoch FROM ${time} - $1::timestamptz)::double precision * 1000 / $3::double precision)::integer AS part`;
const inRange = (time: string) => `${time} >= $1 AND ${time} < $2`;
const quantilesOf = (ms: string) =>
  `percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(${ms}, 0)::double precision)`;
const msFrom = (from: string, to: string) => `extract(epoch FROM ${to} - ${from}) * 1000`;

/** Rows of sessions of the user, or of all. Two texts, because they need two plans. */
function rowsOf<T>(
  db: Db,
  { from, to, step, user }: Within,
  schema: z.ZodType<T>,
  sql: (ofUser: (session: string) => string) => string,
): Promise<T[]> {
  const ofUser = (session: string) =>
    user === null ? '' : `AND EXISTS (SELECT FROM sessions s WHERE s.session_id = ${session} AND s.user_id = $4)`;
  return many(db, schema, sql(ofUser), [from, to, step, ...(user === null ? [] : [user])]);
}

/** One value for each part of the range. */
function perPart<Row extends { part: number }, V>(
  { parts }: Within,
  rows: readonly Row[],
  pick: (row: Row) => V,
  none: V,
): V[] {
  const values = Array.from({ length: parts }, () => none);
  for (const row of rows) if (row.part >= 0 && row.part < parts) values[row.part] = pick(row);
  return values;
}

const count = z.number();
const quantiles = z.tuple([z.number(), z.number()]).nullable();
type Quantiles = z.output<typeof quantiles>;

function perPartQuantiles<Row extends { part: number }>(
  within: Within,
  rows: readonly Row[],
  pick: (row: Row) => Quantiles,
): { p50: (number | null)[]; p95: (number | null)[] } {
  const at = (n: 0 | 1) => {
    const rounded = (ms: number | undefined) => (ms === undefined ? null : Math.round(ms));
    return perPart(within, rows, (row) => rounded(pick(row)?.[n]), null);
  };
  return { p50: at(0), p95: at(1) };
}

const STATES = ['finished', 'aborted', 'error', 'cancelled'] as const;

const turnsRow = z.object({
  ...{ part: count, finished: count, aborted: count, error: count, cancelled: count, open: count },
  ...{ waited: quantiles, took: quantiles },
});

async function readTurns(db: Db, within: Within): Promise<NonNullable<ConsoleNumbers['turns']>> {
  const rows = await rowsOf(
    db,
    within,
    turnsRow,
    (ofUser) => `
    SELECT ${partOf('r.created_at')},
           ${STATES.map((state) => `count(*) FILTER (WHERE r.state = '${state}') AS ${state}`).join(', ')},
           count(*) FILTER (WHERE r.state IN ('queued', 'running', 'waiting')) AS open,
           ${quantilesOf(msFrom('r.created_at', 'r.started_at'))} FILTER (WHERE r.started_at IS NOT NULL) AS waited,
           ${quantilesOf(`${msFrom('r.started_at', 'r.finished_at')} - r.waited_ms`)}
             FILTER (WHERE r.started_at IS NOT NULL AND r.finished_at IS NOT NULL) AS took
      FROM chat_runs r
     WHERE ${inRange('r.created_at')} AND r.kind = 'turn' ${ofUser('r.session_id')}
     GROUP BY part`,
  );
  const counts = (name: (typeof STATES)[number] | 'open') => perPart(within, rows, (row) => row[name], 0);
  return {
    ...{ finished: counts('finished'), aborted: counts('aborted'), error: counts('error') },
    ...{ cancelled: counts('cancelled'), open: counts('open') },
    waited: perPartQuantiles(within, rows, (row) => row.waited),
    took: perPartQuantiles(within, rows, (row) => row.took),
  };
}

const workRow = z.object({ part: count, steps: count, calls: count, workers: count, first: quantiles });

async function readWork(db: Db, within: Within): Promise<NonNullable<ConsoleNumbers['work']>> {
  const rows = await rowsOf(
    db,
    within,
    workRow,
    (ofUser) => `
    SELECT ${partOf('w.ended_at')}, count(*) FILTER (WHERE w.tool_call_id = '') AS steps,
           count(*) FILTER (WHERE w.tool_call_id <> '') AS calls, count(DISTINCT w.worker) AS workers,
           ${quantilesOf('w.first_ms')} FILTER (WHERE w.first_ms IS NOT NULL) AS first
      FROM work_log w
     WHERE ${inRange('w.ended_at')} ${ofUser('w.session_id')}
     GROUP BY part`,
  );
  return {
    steps: perPart(within, rows, ({ steps }) => steps, 0),
    calls: perPart(within, rows, ({ calls }) => calls, 0),
    workers: perPart(within, rows, ({ workers }) => workers, 0),
    first: perPartQuantiles(within, rows, ({ first }) => first),
  };
}

const KINDS = ['input', 'output', 'reasoning', 'cache_read', 'cache_write'] as const;

const tokensRow = z.object({
  ...{ part: count, input: count, output: count, reasoning: count, cache_read: count, cache_write: count },
  cost_usd: count.nullable(),
});

/** Of steps that workers have noted: an import brings tokens that were not used here. */
async function readTokens(db: Db, within: Within): Promise<NonNullable<ConsoleNumbers['tokens']>> {
  const rows = await rowsOf(
    db,
    within,
    tokensRow,
    (ofUser) => `
    SELECT ${partOf('w.ended_at')},
           ${KINDS.map((kind) => `coalesce(sum((report #>> '{usage,${kind}}')::bigint), 0)::bigint AS ${kind}`).join(', ')},
           sum((report ->> 'cost_usd')::double precision) AS cost_usd
      FROM work_log w
      JOIN chat_runs r ON r.session_id = w.session_id AND r.seq = w.run_seq
      JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.answer_id
     CROSS JOIN LATERAL (SELECT m.metadata -> 'steps' -> w.step AS report OFFSET 0) AS settled
     WHERE ${inRange('w.ended_at')} AND w.tool_call_id = '' ${ofUser('w.session_id')}
     GROUP BY part`,
  );
  const counts = (kind: (typeof KINDS)[number]) => perPart(within, rows, (row) => row[kind], 0);
  return {
    ...{ input: counts('input'), output: counts('output'), reasoning: counts('reasoning') },
    ...{ cache_read: counts('cache_read'), cache_write: counts('cache_write') },
    cost_usd: perPart(within, rows, (row) => row.cost_usd, null),
  };
}

const errorsRow = z.object({ part: count, of: z.enum(['turn', 'provider']), code: z.string(), found: count });

async function readErrors(db: Db, within: Within): Promise<NonNullable<ConsoleNumbers['errors']>> {
  const rows = await rowsOf(
    db,
    within,
    errorsRow,
    (ofUser) => `
    SELECT ${partOf('r.created_at')}, 'turn' AS of, coalesce(r.error_code, 'Internal') AS code, count(*) AS found
      FROM chat_runs r
     WHERE ${inRange('r.created_at')} AND r.kind = 'turn' AND r.state = 'error' ${ofUser('r.session_id')}
     GROUP BY part, code
     UNION ALL
    SELECT ${partOf('e.at')}, 'provider', coalesce(e.data ->> 'code', 'Internal') AS code, count(*)
      FROM session_events e
     WHERE ${inRange('e.at')} AND e.kind = 'provider_error' ${ofUser('e.session_id')}
     GROUP BY part, code`,
  );
  const byCode = (which: 'turn' | 'provider') =>
    [
      ...Map.groupBy(
        rows.filter(({ of }) => of === which),
        ({ code }) => code,
      ),
    ]
      .map(([code, found]) => ({ code, counts: perPart(within, found, (row) => row.found, 0) }))
      .toSorted((a, b) => a.code.localeCompare(b.code, 'en'));
  return { turns: byCode('turn'), provider: byCode('provider') };
}
