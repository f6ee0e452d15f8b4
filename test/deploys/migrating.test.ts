// A migration of a database that others are using.
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrate } from '../../migrations/migrate.ts';
import { eventually } from '../support/eventually.ts';
import { freshDatabase } from '../support/servers.ts';

const NEWEST = { version: 8, name: '0008_runs_by_key.sql' };
/** Takes the newest migration back: it makes an index of the same name anew. */
const UNDO = `DELETE FROM schema_migrations WHERE version = ${NEWEST.version}`;
const WAITS = `SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'chat_runs'::regclass`;

let url: string;
let db: pg.Pool;
beforeAll(async () => {
  url = await freshDatabase();
  // Whoever waits for a lock for longer than this has been held up.
  db = new pg.Pool({ connectionString: url, lock_timeout: 2_000 });
  afterAll(() => db.end());
  await db.query(UNDO);
});

it('H1 a migration that has to wait for a table does not hold up those who use it', async () => {
  const backup = await db.connect();
  await backup.query('BEGIN; SELECT FROM chat_runs');
  const migrating = migrate(url);
  for (let times = 0; times < 2; times += 1) {
    await eventually(async () => expect((await db.query(WAITS)).rowCount).toBe(1));
    await db.query(`UPDATE chat_runs SET updated_at = updated_at`);
  }
  await backup.query('COMMIT');
  backup.release();
  expect(await migrating).toEqual([NEWEST.name]);
  expect(await migrate(url)).toEqual([]);
});
