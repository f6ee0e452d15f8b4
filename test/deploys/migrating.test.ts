// A migration of a database that others are using.
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrate } from '../../migrations/migrate.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

const WITH_LOCK = '0007_stuck.sql';
const CONCURRENT = '0008_runs_by_key.sql';
/** Takes a migration back. */
const UNDO = {
  [WITH_LOCK]: `DROP FUNCTION note_stuck; ALTER TABLE chat_sessions DROP COLUMN stuck_at`,
  [CONCURRENT]: 'CREATE INDEX chat_runs_by_message ON chat_runs (session_id, message_id)',
};
const waits = (condition: string) => `SELECT FROM pg_locks WHERE NOT granted AND ${condition}`;

let url: string;
let db: pg.Pool;
beforeAll(async () => {
  url = await freshDatabase();
  // Whoever waits for a lock for longer than this has been held up.
  db = new pg.Pool({ connectionString: url, lock_timeout: 2_000 });
  afterAll(() => db.end());
});

async function takeBack(name: keyof typeof UNDO): Promise<void> {
  await db.query(`${UNDO[name]}; DELETE FROM schema_migrations WHERE name = '${name}'`);
}

it('H1 a migration that has to wait for a table does not hold up those who use it', async () => {
  await takeBack(WITH_LOCK);
  const backup = await db.connect();
  await backup.query('BEGIN; SELECT FROM chat_sessions');
  const migrating = migrate(url);
  for (let times = 0; times < 2; times += 1) {
    const waiting = waits(`mode = 'AccessExclusiveLock' AND relation = 'chat_sessions'::regclass`);
    await eventually(async () => expect((await db.query(waiting)).rowCount).toBe(1));
    await db.query(`UPDATE chat_sessions SET updated_at = updated_at`);
  }
  await backup.query('COMMIT');
  backup.release();
  expect(await migrating).toEqual([WITH_LOCK]);
  expect(await migrate(url)).toEqual([]);
});

it('H1 an index is made while the table is read and written, also after an attempt that broke off', async () => {
  await takeBack(CONCURRENT);
  const writer = await db.connect();
  await writer.query('BEGIN; UPDATE chat_runs SET updated_at = updated_at');
  const both = Promise.all([migrate(url), migrate(url)]);
  await eventually(async () => expect((await db.query(waits(`locktype = 'virtualxid'`))).rowCount).toBe(1));
  await db.query(`UPDATE chat_runs SET updated_at = updated_at`);
  await writer.query('COMMIT');
  writer.release();
  expect((await both).flat()).toEqual([CONCURRENT]);
  const { rows } = await db.query(
    `SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relname ~ '_(by|of)_message$'`,
  );
  expect(rows).toEqual([{ relname: 'chat_runs_of_message', indisvalid: true }]);
});
