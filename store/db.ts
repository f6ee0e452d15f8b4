import pg from 'pg';
import { z } from 'zod';
import { type Db, hasNamedStatements } from './named-statements.ts';

export type { Db } from './named-statements.ts';

const INT8 = 20;
/** bigint as numbers: all of ours are safe integers. Given with each statement, because a pool may be the caller's own. */
export const types = new pg.TypeOverrides();
types.setTypeParser(INT8, Number);

/** Names of prepared statements, by their text. */
const names = new Map<string, string>();

function nameOf(sql: string): string {
  const known = names.get(sql);
  if (known !== undefined) return known;
  // Its beginning identifies it in Postgres' log. Names have at most 63 characters.
  const name = `${names.size + 1} ${sql.trim().replaceAll(/\s+/g, ' ').slice(0, 40)}`;
  names.set(sql, name);
  return name;
}

/** Executes a statement, prepared once per connection where that is possible. */
async function execute<Row extends pg.QueryResultRow>(
  db: Db,
  { name, text, values }: { name: string; text: string; values: unknown[] },
): Promise<Row[]> {
  let named = hasNamedStatements(db);
  // A statement is sent at once where it can be.
  if (typeof named !== 'boolean') named = await named;
  const { rows } = await db.query<Row, unknown[]>({ ...(named && { name }), text, values, types });
  return rows;
}

/** Runs a statement and parses its rows. The text must not contain values. */
export async function many<T>(db: Db, schema: z.ZodType<T>, sql: string, params: unknown[] = []): Promise<T[]> {
  const rows = await execute(db, { name: nameOf(sql), text: sql, values: params });
  return rows.map((row) => schema.parse(row));
}

/** The values of a statement's only column. */
export async function column<T>(db: Db, schema: z.ZodType<T>, sql: string, params: unknown[] = []): Promise<T[]> {
  const rows = await many(db, z.record(z.string(), schema), sql, params);
  return rows.flatMap((row) => Object.values(row));
}

/** The only row of a statement, or undefined. */
export async function maybeOne<T>(
  db: Db,
  schema: z.ZodType<T>,
  sql: string,
  params: unknown[] = [],
): Promise<T | undefined> {
  const rows = await many(db, schema, sql, params);
  if (rows.length > 1) throw new Error('expected one row of a statement');
  return rows[0];
}

/**
 * Calls a function of store/sql and parses its result. jsonb arguments are passed as JSON text.
 * @param given the function's arguments in SQL, the same for all calls of it; default: `args`
 * @throws {Error} an unexpected result, which the message does not contain
 */
export async function call<T>(
  db: Db,
  schema: z.ZodType<T>,
  name: string,
  args: readonly unknown[],
  given = placesOf(args),
): Promise<T> {
  const text = `SELECT ${name}(${given}) AS value`;
  const rows = await execute<Valued>(db, { name: `call ${name}`, text, values: [...args] });
  return valueOf(schema, name, rows);
}

/** SQLSTATE program_limit_exceeded: the queue of NOTIFY is full. */
const QUEUE_FULL = '54000';

/**
 * The same by the procedure `<name>_and_notify` of store/sql/notify.sql, which also sends pointers to readers, after it has
 * committed. The function must be one that can be repeated: it is if the pointers cannot be sent.
 * @param db not inside a transaction, because the procedure commits
 */
export async function callAndNotify<T>(
  db: Db,
  schema: z.ZodType<T>,
  name: string,
  args: readonly unknown[],
): Promise<T> {
  const text = `CALL ${name}_and_notify(${placesOf(args)})`;
  try {
    const rows = await execute<Valued>(db, { name: `call ${name} and notify`, text, values: [...args] });
    return valueOf(schema, name, rows);
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === QUEUE_FULL) return call(db, schema, name, args);
    throw error;
  }
}

interface Valued {
  value: unknown;
}

function placesOf(args: readonly unknown[]): string {
  return args.map((_, index) => `$${index + 1}`).join(', ');
}

function valueOf<T>(schema: z.ZodType<T>, name: string, rows: readonly Valued[]): T {
  const parsed = schema.safeParse(rows[0]?.value);
  if (!parsed.success) throw new Error(`${name}() returned an unexpected value`, { cause: parsed.error });
  return parsed.data;
}

/** The schema of a result that may be null, which becomes undefined. */
export function maybe<T>(schema: z.ZodType<T>) {
  return schema.nullable().transform((value) => value ?? undefined);
}

/** A value as a jsonb argument; null and undefined are SQL's null. */
export function jsonb(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
