import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { transitionRows } from '../domain/phases.ts';

/** Any number: all migrations of a database queue behind one advisory lock. */
const MIGRATION_LOCK = 7_073_647_205;

/**
 * Whoever comes behind a migration that waits for a table waits as well, and a backup may have the table for minutes. So
 * the migration gives up soon, lets the others go ahead, and comes again.
 */
const LOCK_WAIT_MS = 1_000;
const PAUSE_MS = 1_000;
const MOST_TRIES = 600;
/** How often a migration looks whether another one is done. */
const TURN_MS = 100;
const LOCK_NOT_AVAILABLE = '55P03';

/** A file that says so cannot run in a transaction, and need not: nobody waits for it. */
const CONCURRENTLY = /\bCONCURRENTLY\b/;
const MIGRATION_FILE = /^(\d{4})_\w+\.sql$/;

interface Migration {
  version: number;
  name: string;
}

/** Names of the files that a database has not seen; all of them where nothing was ever migrated. */
export async function missingMigrations(db: pg.Pool): Promise<string[]> {
  return (await missing(db)).map(({ name }) => name);
}

async function missing(db: pg.Pool | pg.Client): Promise<Migration[]> {
  const names = (await readdir(import.meta.dirname)).filter((name) => MIGRATION_FILE.test(name)).toSorted();
  const files = names.map((name) => ({ version: Number(name.slice(0, 4)), name }));
  const { rowCount } = await db.query(`SELECT FROM pg_class WHERE oid = to_regclass('schema_migrations')`);
  if (rowCount === 0) return files;
  const { rows } = await db.query<{ version: number }>('SELECT version FROM schema_migrations');
  const seen = new Set(rows.map((row) => row.version));
  return files.filter(({ version }) => !seen.has(version));
}

/** Makes `phase_transitions` equal to the domain's table. */
async function seedTransitions(db: pg.ClientBase): Promise<void> {
  const rows = JSON.stringify(transitionRows());
  await db.query(
    `WITH wanted AS (
       SELECT * FROM jsonb_to_recordset($1::jsonb) AS row(phase text, event text, next text)
     ), gone AS (
       DELETE FROM phase_transitions WHERE (phase, event) NOT IN (SELECT phase, event FROM wanted)
     )
     INSERT INTO phase_transitions SELECT phase, event, next FROM wanted
     ON CONFLICT (phase, event) DO UPDATE SET next = excluded.next`,
    [rows],
  );
}

async function applyOne(db: pg.Client, migration: Migration): Promise<void> {
  const sql = await readFile(`${import.meta.dirname}/${migration.name}`, 'utf8');
  if (!CONCURRENTLY.test(sql)) return applyAtOnce(db, sql, migration);
  for (const statement of sql.split(/;$/m)) await db.query(statement);
  await note(db, migration);
}

/** In a transaction. */
async function applyAtOnce(db: pg.Client, sql: string, migration: Migration): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await db.query('BEGIN');
      await db.query(`SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`);
      await db.query(sql);
      await note(db, migration);
      await db.query('COMMIT');
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE || tries === MOST_TRIES) throw error;
      await db.query('ROLLBACK');
      await delay(PAUSE_MS);
    }
  }
}

async function note(db: pg.Client, { version, name }: Migration): Promise<void> {
  await db.query('INSERT INTO schema_migrations (version, name) VALUES ($1, $2)', [version, name]);
}

/** Asked again and again: a statement that waited for it would have a snapshot, and CONCURRENTLY waits for those. */
async function untilOurTurn(db: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await db.query<{ got: boolean }>('SELECT pg_try_advisory_lock($1) AS got', [MIGRATION_LOCK]);
    if (rows[0]?.got === true) return;
    await delay(TURN_MS);
  }
}

/**
 * Brings a database to the newest schema: the numbered files beside this one that it has not seen, in order, each in a
 * transaction of its own or, where it says CONCURRENTLY, statement by statement and from its beginning if it broke
 * off. Safe to run at any time and from several processes at once, beside workers and
 * hosts at work. Forward only.
 *
 * @param databaseUrl past any pooler, for it holds a lock from its first statement to its last
 * @returns the names of the files that were applied
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const db = new pg.Client({ connectionString: databaseUrl });
  await db.connect();
  const applied: string[] = [];
  try {
    await untilOurTurn(db);
    await db.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())',
    );
    for (const file of await missing(db)) {
      await applyOne(db, file);
      applied.push(file.name);
    }
    await seedTransitions(db);
  } finally {
    await db.end();
  }
  return applied;
}
