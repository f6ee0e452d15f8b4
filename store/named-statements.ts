import type pg from 'pg';

/** A pool, or a client inside a transaction. */
export type Db = pg.Pool | pg.ClientBase;

/** Whether statements on a pool or a connection have names; a promise while Postgres is asked. */
const known = new WeakMap<Db, boolean | Promise<boolean>>();

/**
 * Decides whether statements are prepared under names, which a pooler that shares its connections in transaction mode may
 * not support. Without this, it is found out with the first statement.
 */
export function nameStatements(db: Db, named: boolean): void {
  known.set(db, named);
}

/**
 * Whether statements are prepared under names. They are unless there is a pooler, because of which a name may be unknown, or
 * known already, where the next statement is executed. Asks Postgres once per pool, or per connection that is not of a pool
 * of `createPool`.
 * @throws whatever asking fails with; the next statement asks again
 */
export function hasNamedStatements(db: Db): boolean | Promise<boolean> {
  const decided = known.get(db);
  if (decided !== undefined) return decided;
  const asked = ask(db).then(
    (named) => {
      known.set(db, named);
      return named;
    },
    (error: unknown) => {
      known.delete(db);
      throw error;
    },
  );
  known.set(db, asked);
  return asked;
}

async function ask(db: Db): Promise<boolean> {
  if (!isPool(db)) return (await introduce(db)).isDirect;
  const client = await db.connect();
  let broken: Error | undefined;
  try {
    return await hasNamedStatements(client);
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    client.release(broken);
  }
}

function isPool(db: Db): db is pg.Pool {
  return 'totalCount' in db;
}

/** What is learnt of a new connection. */
interface Introduced {
  /** It leads to one process of Postgres until it ends. Otherwise it leads to a pooler. */
  isDirect: boolean;
  /** The user in Postgres. */
  user: string;
  /** Behind a pooler: which of the limits are not set. */
  missing: string[];
}

/** A pooler gives its clients process ids of its own, with which they may cancel statements. */
const INTRODUCE = `
  SELECT pg_backend_pid() = $1::integer AS direct, current_user AS "user",
         (SELECT count(set_config(key, value, false)) FROM jsonb_each_text($2) WHERE pg_backend_pid() = $1::integer) AS set,
         ARRAY(SELECT key FROM jsonb_object_keys($2) AS key WHERE current_setting(key) = '0') AS missing`;

/**
 * Asks what a connection leads to, and sets limits on it if it is direct: a setting that is made through a pooler may apply
 * to others' statements.
 * @param limits names of Postgres' settings with times in milliseconds
 * @param timeoutMs time limit of the statement
 */
export async function introduce(
  client: pg.ClientBase,
  { limits = {}, timeoutMs }: { limits?: Readonly<Record<string, number>>; timeoutMs?: number | undefined } = {},
): Promise<Introduced> {
  // The process id is not in the types of pg. Poolers may give none.
  const { processID = null } = client as { processID?: number | null };
  const values = [processID, JSON.stringify(limits)];
  const query = { text: INTRODUCE, values, ...(timeoutMs !== undefined && { query_timeout: timeoutMs }) };
  const { rows } = await client.query<{ direct: boolean | null; user: string; missing: string[] }>(query);
  const [row] = rows;
  if (row === undefined) throw new Error('expected one row of a statement');
  const isDirect = row.direct === true;
  return { isDirect, user: row.user, missing: isDirect ? [] : row.missing };
}
