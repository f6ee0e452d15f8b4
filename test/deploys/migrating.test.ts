// Migrations while the database is in use, and by builds of different versions.
import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { execa } from 'execa';
import type pg from 'pg';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { type MigrateOptions, migrate, missingMigrations } from '../../migrations/migrate.ts';
import { readPrompt } from '../../store/prompts.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

const root = path.join(import.meta.dirname, '..', '..');
const file = (name: string) => readFile(path.join(root, 'migrations', name), 'utf8');
const waits = (condition: string) => `SELECT FROM pg_locks WHERE NOT granted AND ${condition}`;
const scratch = scratchDir();
let builds = 0;
let url: string;
let db: pg.Pool;

beforeEach(async () => {
  url = await freshDatabase();
  // A statement that waits for a lock for longer than this was blocked by the migration.
  const limited = new URL(url);
  limited.searchParams.set('lock_timeout', '2000');
  db = patientPool(limited.href);
  onTestFinished(() => db.end());
});

/** A build with more migrations and function files than today's, by file name. */
async function build(files: { migrations?: Record<string, string>; functions?: Record<string, string> } = {}) {
  builds += 1;
  const made: Required<Pick<MigrateOptions, 'migrations' | 'functions'>> = {
    migrations: path.join(scratch, `${builds}`, 'migrations'),
    functions: path.join(scratch, `${builds}`, 'functions'),
  };
  for (const [kind, source] of [
    ['migrations', 'migrations'],
    ['functions', 'store/sql'],
  ] as const) {
    await mkdir(made[kind], { recursive: true });
    for (const name of await readdir(path.join(root, source))) {
      if (name.endsWith('.sql')) await cp(path.join(root, source, name), path.join(made[kind], name));
    }
    for (const [name, sql] of Object.entries(files[kind] ?? {})) await writeFile(path.join(made[kind], name), sql);
  }
  return made;
}

/** Everything that a migration may change. */
async function contents(): Promise<unknown> {
  const tables = ['schema_migrations', 'schema_functions', 'phase_transitions'];
  const found = await Promise.all(tables.map((table) => db.query(`SELECT * FROM ${table} ORDER BY 1, 2`)));
  const functions = await db.query(
    `SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1`,
  );
  return [...found, functions].map(({ rows }) => rows as unknown);
}

it('H1 limits of the user for statements do not end a migration', async () => {
  const { pathname } = new URL(url);
  for (const name of ['statement_timeout', 'idle_in_transaction_session_timeout']) {
    await db.query(`ALTER DATABASE "${pathname.slice(1)}" SET ${name} = 50`);
  }
  const slow = await build({ migrations: { '9001_slow.sql': 'SELECT pg_sleep(0.2)' } });
  expect(await migrate(url, slow)).toContain('9001_slow.sql');
});

it('P1 prompts that were stored with digests in hex are read after the second migration', async () => {
  const old = patientPool(await freshDatabase({ empty: true }));
  onTestFinished(() => old.end());
  await old.query(await file('0001_tables.sql'));
  const hex = (body: string) => createHash('sha256').update(body).digest('hex');
  const sections = ['agent', '', 'tools', ''];
  for (const body of new Set(sections)) {
    await old.query('INSERT INTO prompt_sections (digest, body) VALUES ($1, $2)', [hex(body), body]);
  }
  const digest = hex('all');
  for (const [session, stored] of [['one', sections.map(hex)] as const, ['none', []] as const]) {
    const sql = 'INSERT INTO system_prompts (session_id, digest, sections) VALUES ($1, $2, $3)';
    await old.query(sql, [session, digest, stored]);
  }
  await old.query(await file('0002_digests_and_tool_calls.sql'));
  expect(await readPrompt(old, 'one', digest)).toEqual(sections);
  expect(await readPrompt(old, 'none', digest)).toEqual([]);
});

it.each([
  [
    ['perdure', 'perdure'],
    ['perdure app', 'perdure session', 'perdure session', 'perdure user'],
  ],
  [
    ['perdure', 'shop'],
    ['perdure session', 'shop session'],
  ],
])('S10 a migration keeps what sessions of the apps %j have cached where its app is certain', async (apps, kept) => {
  const old = patientPool(await freshDatabase({ empty: true }));
  onTestFinished(() => old.end());
  for (const name of ['0001_tables.sql', '0006_scoped_state.sql', '0011_cached_results.sql']) {
    await old.query(await file(name));
  }
  await old.query('ALTER TABLE sessions DISABLE TRIGGER USER');
  const owners: string[][] = [
    ['user', 'ada'],
    ['app', ''],
  ];
  for (const [n, app] of apps.entries()) {
    const id = newId('ses');
    owners.push(['session', id]);
    await old.query(`INSERT INTO sessions (session_id, user_id, phase) VALUES ($1, 'ada', 'chatting')`, [id]);
    await old.query('INSERT INTO chat_sessions (session_id, agent, app) VALUES ($1, $2, $3)', [id, `agent ${n}`, app]);
  }
  for (const owner of owners) {
    await old.query(
      `INSERT INTO cached_results VALUES ($1, $2, 'a/tool', 'key', '1', now() + interval '1 day')`,
      owner,
    );
  }
  await old.query(await file('0033_cached_results_by_app.sql'));
  const cached = async () =>
    (await old.query(`SELECT app || ' ' || scope AS cached FROM cached_results ORDER BY 1`)).rows.map(
      (row: { cached: string }) => row.cached,
    );
  expect(await cached()).toEqual(kept);
  // A worker calls the function before the new ones of store/sql are there.
  for (const scope of ['user', 'app']) {
    await old.query(`SELECT cache_result($1, $2, 'ada', 'a/tool', 'key', '2', 60000)`, [scope, owners.at(-1)![1]]);
  }
  expect(new Set(await cached())).toEqual(new Set([...kept, `${apps[1]} user`, `${apps[1]} app`]));
});

it('P3 a migration leaves the newest of the rules of a project that have the same pattern', async () => {
  const old = patientPool(await freshDatabase({ empty: true }));
  onTestFinished(() => old.end());
  for (const name of ['0001_tables.sql', '0023_permissions.sql']) await old.query(await file(name));
  await old.query('ALTER TABLE project_permissions DROP CONSTRAINT project_permissions_project_id_fkey');
  const made = ['one pay 5', 'one pay 5', 'one pay 6', 'one look 5', 'two pay 5', 'one pay 5'];
  for (const [n, rule] of made.entries()) {
    await old.query(
      `INSERT INTO project_permissions (project_id, rule_id, permission, pattern, action) VALUES ($1, $2, $3, $4, 'allow')`,
      [rule.split(' ')[0], `rul_${n}`, ...rule.split(' ').slice(1)],
    );
  }
  await old.query(await file('0035_unique_rules.sql'));
  const { rows } = await old.query<{ rule_id: string }>('SELECT rule_id FROM project_permissions ORDER BY n');
  expect(rows.map((row) => row.rule_id)).toEqual(['rul_2', 'rul_3', 'rul_4', 'rul_5']);
});

it('H1 a migration that waits for a table does not block other statements', async () => {
  const name = '9001_column.sql';
  const next = await build({ migrations: { [name]: 'ALTER TABLE chat_sessions ADD COLUMN extra text;' } });
  const backup = await db.connect();
  await backup.query('BEGIN; SELECT FROM chat_sessions');
  const migrating = migrate(url, next);
  for (let times = 0; times < 2; times += 1) {
    const waiting = waits(`mode = 'AccessExclusiveLock' AND relation = 'chat_sessions'::regclass`);
    await eventually(async () => expect((await db.query(waiting)).rowCount).toBe(1));
    await db.query(`UPDATE chat_sessions SET updated_at = updated_at`);
  }
  await backup.query('COMMIT');
  backup.release();
  expect(await migrating).toEqual([name]);
  expect(await migrate(url, next)).toEqual([]);
});

it('H1 an index is built while the table is read and written, also after a failed attempt', async () => {
  const name = '9001_index.concurrently.sql';
  const sql = `
    -- A failed attempt leaves an invalid index.
    DROP INDEX CONCURRENTLY IF EXISTS extra_index;
    CREATE UNIQUE INDEX CONCURRENTLY extra_index ON chat_sessions (agent);`;
  const next = await build({ migrations: { [name]: sql } });
  await db.query(`SELECT open_session('ses_' || lpad('', 12, n) || repeat('x', 14), 'ada', 'a', NULL, NULL, '{}', NULL)
                    FROM unnest(ARRAY['1', '2']) AS n`);
  await expect(migrate(url, next)).rejects.toMatchObject({ code: '23505' });
  await db.query(`UPDATE chat_sessions SET agent = session_id`);
  const writer = await db.connect();
  await writer.query('BEGIN; UPDATE chat_sessions SET updated_at = updated_at');
  const both = Promise.all([migrate(url, next), migrate(url, next)]);
  await eventually(async () => expect((await db.query(waits(`locktype = 'virtualxid'`))).rowCount).toBe(1));
  await db.query(`UPDATE chat_runs SET updated_at = updated_at`);
  await writer.query('COMMIT');
  writer.release();
  expect((await both).flat()).toEqual([name]);
  const { rows } = await db.query(`SELECT indisvalid FROM pg_index WHERE indexrelid = 'extra_index'::regclass`);
  expect(rows).toEqual([{ indisvalid: true }]);
});

it('H1 a comment does not change how a migration runs: a file that fails changes nothing', async () => {
  const sql = `-- Not CONCURRENTLY: the table is small.
    CREATE TABLE extra (id integer);
    SELECT 1 / 0;`;
  const next = await build({ migrations: { '9001_extra.sql': sql } });
  await expect(migrate(url, next)).rejects.toThrow('division by zero');
  expect((await db.query(`SELECT to_regclass('extra') AS oid`)).rows).toEqual([{ oid: null }]);
});

it('H1 functions are applied when their digest changes, in one transaction', async () => {
  const answer = (value: number) =>
    `CREATE OR REPLACE FUNCTION extra() RETURNS integer LANGUAGE sql AS 'SELECT ${value}';`;
  expect(await migrate(url, await build({ functions: { 'extra.sql': answer(1) } }))).toEqual(['store/sql']);
  expect((await db.query('SELECT extra()')).rows).toEqual([{ extra: 1 }]);
  const broken = await build({ functions: { 'extra.sql': answer(2), 'zzz.sql': 'SELECT no_such_function();' } });
  await expect(migrate(url, broken)).rejects.toThrow('no_such_function');
  expect((await db.query('SELECT extra()')).rows).toEqual([{ extra: 1 }]);
  const second = await build({ functions: { 'extra.sql': answer(2) } });
  expect(await migrate(url, second)).toEqual(['store/sql']);
  expect(await migrate(url, second)).toEqual([]);
  expect((await db.query('SELECT extra()')).rows).toEqual([{ extra: 2 }]);
});

it('H1 a function gets another argument, and loses it with the build that had it', async () => {
  const answer = (args: string, value: string) =>
    `CREATE OR REPLACE FUNCTION extra(${args}) RETURNS text LANGUAGE sql AS $$ SELECT ${value} $$;`;
  const older = await build({ functions: { 'extra.sql': answer('p_text text', `p_text || '!'`) } });
  const newer = await build({
    functions: { 'extra.sql': answer(`p_text text, p_end text DEFAULT '.'`, 'p_text || p_end') },
  });
  // As a host of either version calls it.
  const said = async () => (await db.query<{ extra: string }>(`SELECT extra('yes')`)).rows[0]!.extra;
  await migrate(url, older);
  expect(await said()).toBe('yes!');
  await migrate(url, newer);
  expect(await said()).toBe('yes.');
  await migrate(url, { ...older, replace: true });
  expect(await said()).toBe('yes!');
  await expect(db.query(`SELECT extra('yes', '?')`)).rejects.toThrow('does not exist');
});

it('H1 the bodies of SQL functions are checked, whatever the order in which they call one another', async () => {
  const first = `CREATE OR REPLACE FUNCTION aaa() RETURNS integer LANGUAGE sql AS 'SELECT zzz()';`;
  const last = `CREATE OR REPLACE FUNCTION zzz() RETURNS integer LANGUAGE sql AS 'SELECT 7';`;
  await migrate(url, await build({ functions: { 'aaa.sql': first, 'zzz.sql': last } }));
  expect((await db.query('SELECT aaa()')).rows).toEqual([{ aaa: 7 }]);
  await expect(migrate(url, await build({ functions: { 'aaa.sql': first.replace('zzz', 'zzy') } }))).rejects.toThrow(
    'zzy',
  );
});

it('H1 if an older build finds an unknown migration, it changes nothing and says so', async () => {
  const older = await build();
  const newer = await build({
    migrations: { '9001_newer.sql': `INSERT INTO phase_transitions VALUES ('done', 'newer', 'done');` },
  });
  await migrate(url, newer);
  const before = await contents();
  await expect(migrate(url, older)).rejects.toThrow(/does not know: 9001_newer\.sql; nothing was changed/);
  expect(await contents()).toEqual(before);
});

it('H1 `npm run migrate` exits with 1 and one line that says so', async () => {
  await db.query(`INSERT INTO schema_migrations (version, name) VALUES (9001, '9001_newer.sql')`);
  const before = await contents();
  const env = { PATH: process.env['PATH'], DATABASE_URL: url };
  const { exitCode, stdout, stderr } = await execa({
    env,
    extendEnv: false,
    reject: false,
  })`${process.execPath} ${root}/migrations/main.ts`;
  expect(exitCode).toBe(1);
  expect(`${stdout}${stderr}`).toContain('does not know: 9001_newer.sql; nothing was changed');
  expect(await contents()).toEqual(before);
});

it('H1 an older build does not restore its functions, and its workers start beside newer ones', async () => {
  const newer = await build({
    functions: { 'extra.sql': 'CREATE OR REPLACE FUNCTION extra() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;' },
  });
  await migrate(url, newer);
  const before = await contents();
  await expect(migrate(url, await build())).rejects.toThrow(/another build has replaced .* nothing was changed/);
  expect(await contents()).toEqual(before);
  expect(await missingMigrations(db)).toEqual([]);
  expect(await migrate(url, { ...(await build()), replace: true })).toEqual(['store/sql']);
});

it('H1 a worker reports migrations and functions that were not applied', async () => {
  await db.query(`DELETE FROM schema_functions`);
  expect(await missingMigrations(db)).toEqual(['store/sql']);
  await db.query('DROP TABLE schema_functions, schema_migrations');
  const files = (await readdir(path.join(root, 'migrations'))).filter((name) => name.endsWith('.sql')).toSorted();
  expect(files).toContain('0001_tables.sql');
  expect(await missingMigrations(db)).toEqual([...files, 'store/sql']);
});
