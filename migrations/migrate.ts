import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { appliedDigests, applyFunctions, applyTransitions, readFunctions } from './functions.ts';

/** The advisory lock under which the migrations of one database run one after another; the number is arbitrary. */
export const MIGRATION_LOCK = 7_073_647_205;

/**
 * Statements queue behind a migration that waits for a table lock, and a backup may hold the table for minutes. So a
 * migration gives up after a second, lets the others go first, and tries again.
 */
const LOCK_WAIT_MS = 1_000;
const PAUSE_MS = 1_000;
const MAX_ATTEMPTS = 600;
const LOCK_POLL_MS = 100;
const LOCK_NOT_AVAILABLE = '55P03';

/** Files named `….concurrently.sql` run statement by statement, outside a transaction, which CONCURRENTLY requires. */
const CONCURRENTLY = '.concurrently.sql';
const MIGRATION_FILE = /^(\d{4})_\w+(\.concurrently)?\.sql$/;
/** What `missingMigrations` and `migrate` call the functions of store/sql. */
const FUNCTIONS = 'store/sql';

interface Migration {
  version: number;
  name: string;
}

/** Where `migrate` finds what it applies; default this build's own. */
export interface MigrateOptions {
  /** Folder of the numbered migrations. */
  migrations?: string;
  /** Folder of the SQL functions. */
  functions?: string;
  /** Apply this build's functions also where another build replaced them. Default false. */
  replace?: boolean;
}

/** The database was migrated by a newer build: nothing was changed. */
class NewerSchemaError extends Error {
  override name = 'NewerSchemaError';
}

/** Names what a database lacks to run this build: migration files, and `store/sql` for its functions. */
export async function missingMigrations(db: pg.Pool): Promise<string[]> {
  const { missing } = await compare(db, import.meta.dirname);
  const { digest } = await readFunctions();
  // Functions that a newer build has replaced since serve this build too.
  const known = (await appliedDigests(db)).includes(digest);
  return [...missing.map(({ name }) => name), ...(known ? [] : [FUNCTIONS])];
}

/** The migrations that a database lacks, and the names of those that it has and this build does not know. */
async function compare(db: pg.Pool | pg.Client, folder: string) {
  const names = (await readdir(folder)).filter((name) => MIGRATION_FILE.test(name)).toSorted();
  const files = names.map((name): Migration => ({ version: Number(name.slice(0, 4)), name }));
  const { rowCount } = await db.query(`SELECT FROM pg_class WHERE oid = to_regclass('schema_migrations')`);
  if (rowCount === 0) return { missing: files, unknown: [] };
  const { rows } = await db.query<Migration>('SELECT version, name FROM schema_migrations ORDER BY version');
  const missing = files.filter(({ version }) => !rows.some((row) => row.version === version));
  const unknown = rows.filter((row) => !names.includes(row.name)).map(({ name }) => name);
  return { missing, unknown };
}

async function applyMigration(db: pg.Client, folder: string, migration: Migration): Promise<void> {
  const sql = await readFile(path.join(folder, migration.name), 'utf8');
  if (!migration.name.endsWith(CONCURRENTLY)) {
    return inTransaction(db, async () => {
      await db.query(sql);
      await record(db, migration);
    });
  }
  for (const statement of sql.split(/;$/m)) await db.query(statement);
  await record(db, migration);
}

/** Retries while a table lock is not available. */
async function inTransaction(db: pg.Client, work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.query('BEGIN');
      await db.query(`SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`);
      await work();
      await db.query('COMMIT');
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE || attempt === MAX_ATTEMPTS) throw error;
      await db.query('ROLLBACK');
      await delay(PAUSE_MS);
    }
  }
}

async function record(db: pg.Client, { version, name }: Migration): Promise<void> {
  await db.query('INSERT INTO schema_migrations (version, name) VALUES ($1, $2)', [version, name]);
}

/** Polls: a statement that blocked on the lock would hold a snapshot, and CONCURRENTLY waits for snapshots. */
async function takeLock(db: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await db.query<{ got: boolean }>('SELECT pg_try_advisory_lock($1) AS got', [MIGRATION_LOCK]);
    if (rows[0]?.got === true) return;
    await delay(LOCK_POLL_MS);
  }
}

/** The user may have limits for the statements of hosts and workers. */
const WITHOUT_LIMITS = 'SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0';

const BOOKKEEPING = `
  CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now()
  );
  CREATE TABLE IF NOT EXISTS schema_functions (
    n bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, digest text NOT NULL UNIQUE, at timestamptz NOT NULL DEFAULT now()
  )`;

/**
 * Brings a database to this build's schema: the numbered migrations that it lacks, in order, each in its own
 * transaction (`….concurrently.sql` files: statement by statement, from the start again after a failure), then the
 * functions of store/sql in one transaction if they changed. Safe to run at any time, from several processes at once,
 * beside running workers and hosts. Forward only.
 *
 * @param databaseUrl a direct connection, not through a pooler: a session lock is held from first to last statement
 * @returns the names of the files that were applied, `store/sql` for the functions
 * @throws {NewerSchemaError} a newer build migrated this database: nothing is changed
 */
export async function migrate(databaseUrl: string, options: MigrateOptions = {}): Promise<string[]> {
  const folder = options.migrations ?? import.meta.dirname;
  const db = new pg.Client({ connectionString: databaseUrl });
  await db.connect();
  try {
    await db.query(WITHOUT_LIMITS);
    await takeLock(db);
    const functions = await readFunctions(options.functions);
    const { missing, unknown } = await compare(db, folder);
    const [newest, ...replaced] = await appliedDigests(db);
    refuseNewer(unknown, options.replace !== true && replaced.includes(functions.digest));
    await db.query(BOOKKEEPING);
    for (const file of missing) await applyMigration(db, folder, file);
    const current = newest === functions.digest;
    await inTransaction(db, async () => {
      if (!current) await applyFunctions(db, functions);
      await applyTransitions(db, functions);
    });
    return [...missing.map(({ name }) => name), ...(current ? [] : [FUNCTIONS])];
  } finally {
    await db.end();
  }
}

function refuseNewer(unknown: readonly string[], replaced: boolean): void {
  if (unknown.length > 0) {
    throw new NewerSchemaError(
      `the database has migrations that this build does not know: ${unknown.join(', ')}; nothing was changed. ` +
        'Migrate with the newest build.',
    );
  } else if (replaced) {
    throw new NewerSchemaError(
      'another build has replaced the SQL functions of this one; nothing was changed. ' +
        'Migrate with the newest build, or run this one with --replace-functions if it is the newest.',
    );
  }
}
