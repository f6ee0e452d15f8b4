import pg from 'pg';
import type { z } from 'zod';

/** A pool, or a client inside a transaction: what every function of the store takes first. */
export type Db = pg.Pool | pg.ClientBase;

const INT8 = 20;
const types = new pg.TypeOverrides();
types.setTypeParser(INT8, Number);

/**
 * How long Postgres may keep us waiting, in milliseconds; each may be given in the URL instead. Short pieces of work of a
 * workflow have 10 s: connecting and a statement together stay below. What the server does not end itself, for it is frozen or
 * the network swallows its words, our side gives up a second later.
 */
const TIMEOUTS = {
  connectionTimeoutMillis: 3_000,
  statement_timeout: 5_000,
  lock_timeout: 4_000,
  idle_in_transaction_session_timeout: 10_000,
  query_timeout: 6_000,
};
/** An idle connection is asked after this whether its other end is there. */
const KEEP_ALIVE_MS = 5_000;

/** A pool of connections. bigint columns come as numbers: none of ours leaves the safe integers. */
export function createPool(connectionString: string, { max = 10 }: { max?: number } = {}): pg.Pool {
  const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_MS };
  const pool = new pg.Pool({ connectionString, max, types, ...TIMEOUTS, ...keepAlive });
  // A server that goes away ends idle connections too; unheard, that error would end the process. Whoever asks next is
  // told by the connection that cannot be made.
  pool.on('error', () => {});
  return pool;
}

/** Names of prepared statements by their text: planning one costs more than running it. */
const names = new Map<string, string>();

function nameOf(sql: string): string {
  const known = names.get(sql);
  if (known !== undefined) return known;
  // Its first words tell in Postgres' log what it is; it takes names of up to 63 characters.
  const name = `${names.size + 1} ${sql.trim().replaceAll(/\s+/g, ' ').slice(0, 40)}`;
  names.set(sql, name);
  return name;
}

/** Runs a statement, prepared once a connection, and parses every row. Its text is one of few: values are parameters. */
export async function many<T>(db: Db, schema: z.ZodType<T>, sql: string, params: unknown[] = []): Promise<T[]> {
  const { rows } = await db.query({ name: nameOf(sql), text: sql, values: params });
  return rows.map((row) => schema.parse(row));
}

/** The only row of a statement, or undefined. */
export async function maybeOne<T>(
  db: Db,
  schema: z.ZodType<T>,
  sql: string,
  params: unknown[] = [],
): Promise<T | undefined> {
  const rows = await many(db, schema, sql, params);
  if (rows.length > 1) throw new Error('a statement that should give one row gave several');
  return rows[0];
}

/**
 * Calls a function of store/sql and parses the value that it returns. jsonb arguments are given as JSON text.
 * @throws {Error} the function returned a value of another shape; the message holds none of it
 */
export async function call<T>(db: Db, schema: z.ZodType<T>, name: string, args: readonly unknown[]): Promise<T> {
  const places = args.map((_, index) => `$${index + 1}`).join(', ');
  const { rows } = await db.query<{ value: unknown }, unknown[]>({
    name: `call ${name}`,
    text: `SELECT ${name}(${places}) AS value`,
    values: [...args],
  });
  const parsed = schema.safeParse(rows[0]?.value);
  if (!parsed.success) throw new Error(`${name}() returned an unexpected value`, { cause: parsed.error });
  return parsed.data;
}

/** A value as a jsonb argument; null stays SQL's null. */
export function jsonb(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
