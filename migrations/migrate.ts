import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import { transitionRows } from '../domain/phases.ts';

/** Any number: all migrations of a database queue behind one advisory lock. */
const MIGRATION_LOCK = 7_073_647_205;

const MIGRATION_FILE = /^(\d{4})_\w+\.sql$/;

async function migrationFiles(): Promise<{ version: number; name: string }[]> {
  const names = (await readdir(import.meta.dirname)).filter((name) => MIGRATION_FILE.test(name)).toSorted();
  return names.map((name) => ({ version: Number(name.slice(0, 4)), name }));
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

/**
 * Brings a database to the newest schema: the numbered files beside this one that it has not seen, each in a
 * transaction of its own, in order. Safe to run at any time and from several processes at once. Forward only.
 *
 * @returns the names of the files that were applied
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const db = new pg.Client({ connectionString: databaseUrl });
  await db.connect();
  const applied: string[] = [];
  try {
    await db.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await db.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())',
    );
    const { rows } = await db.query<{ version: number }>('SELECT version FROM schema_migrations');
    const seen = new Set(rows.map((row) => row.version));
    for (const { version, name } of await migrationFiles()) {
      if (seen.has(version)) continue;
      const sql = await readFile(`${import.meta.dirname}/${name}`, 'utf8');
      await db.query('BEGIN');
      await db.query(sql);
      await db.query('INSERT INTO schema_migrations (version, name) VALUES ($1, $2)', [version, name]);
      await db.query('COMMIT');
      applied.push(name);
    }
    await seedTransitions(db);
  } finally {
    await db.end();
  }
  return applied;
}
