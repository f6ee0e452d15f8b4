import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';
import type pg from 'pg';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { PHASES } from '../../domain/phases.ts';
import { call, freshRows, pendingTool, refusal, rows, Session } from './session.ts';

const db = await freshRows();
const GUARDED = 'PD001';
const CHECKED = '23514';

/** Returns the statements that were not refused with the code. */
async function slippedThrough<T>(code: string, statements: readonly T[], run: (statement: T) => Promise<unknown>) {
  const slipped: { statement: T; verdict: string }[] = [];
  for (const statement of statements) {
    const verdict = await refusal(run(statement));
    if (verdict !== code) slipped.push({ statement, verdict });
  }
  return slipped;
}

/** Runs `work` in a transaction that is rolled back. */
async function inTransaction(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    await work(client);
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
}

/** Runs `work` in a savepoint, so that the transaction continues after its failure. */
async function attempt(client: pg.PoolClient, work: () => Promise<unknown>): Promise<void> {
  await client.query('SAVEPOINT before');
  try {
    await work();
  } finally {
    await client.query('ROLLBACK TO before');
  }
}

/** An UPDATE as typed in psql. */
function stray(client: pg.Pool | pg.ClientBase, session: Session, set: string): Promise<unknown> {
  return client.query(`UPDATE sessions SET ${set} WHERE session_id = $1`, [session.id]);
}

it('S1 the sessions table has exactly its seven columns', async () => {
  const columns = await rows(
    db,
    `SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
      WHERE table_schema = 'public' AND table_name = 'sessions' ORDER BY ordinal_position`,
  );
  expect(columns.map((column) => Object.values(column).join(' | '))).toEqual([
    'session_id | text | NO | ',
    'user_id | text | NO | ',
    'project_id | text | YES | ',
    'phase | text | NO | ',
    'pending_tool | jsonb | YES | ',
    'cancel_token | text | YES | ',
    'updated_at | timestamp with time zone | NO | now()',
  ]);
  const sql = `SELECT pg_get_constraintdef(oid) AS key FROM pg_constraint
                WHERE conrelid = 'sessions'::regclass AND contype = 'p'`;
  expect(await rows(db, sql)).toEqual([{ key: 'PRIMARY KEY (session_id)' }]);
});

it('S1 a row stays under 1 KB at the largest values that are legal', async () => {
  const session = await Session.at('chatting', db, { user: 'u'.repeat(128), project: 'p'.repeat(64) });
  expect(await session.cancel(newId('cmd'))).toMatchObject({ code: 'InvalidTransition' });
  await session.raise('start_build');
  await session.cancel(`cancel:${'t'.repeat(64)}`);
  const run = await session.runWithCalls(['c'.repeat(64)]);
  const pending = { ...pendingTool('c'.repeat(64)), message_id: 'm'.repeat(64), name: '' };
  pending.name = 'ü'.repeat(Math.floor((512 - jsonbLength(pending)) / 2));
  const raise = JSON.stringify({ event: 'start_build', at: 'start', project: 'required' });
  await call(db, 'begin_tool', [session.id, run, [1, 1, 1], JSON.stringify(pending), raise]);
  await session.raise('todo_done_build');
  expect(await session.row()).toMatchObject({
    phase: 'verifying',
    pending_tool: { ...pending, started_at: expect.any(String) },
    cancel_token: 't'.repeat(64),
  });
  const [size] = await rows(db, 'SELECT pg_column_size(s.*) AS bytes FROM sessions s WHERE session_id = $1', [
    session.id,
  ]);
  expect(size!['bytes']).toBeLessThanOrEqual(1024);
});

it('S1 a pending tool is five short scalars, never an input', async () => {
  const session = await Session.at('chatting', db);
  const pending = pendingTool('call_1');
  const refused = [
    { ...pending, name: 'n'.repeat(512) },
    { ...pending, input: {} },
    { ...pending, name: { of: 'many' } },
    { ...pending, step: Array.from({ length: 120 }, () => 1) },
    { ...pending, step: '1' },
    { ...pending, started_at: null },
    { tool_call_id: 'call_1' },
    [],
  ];
  expect(
    await slippedThrough(CHECKED, refused, (value) =>
      call(db, 'write_pending_tool', [session.id, JSON.stringify(value)]),
    ),
  ).toEqual([]);
});

it('S2 a stray UPDATE of any column is refused, for a superuser too', async () => {
  const session = await Session.at('building', db, { project: 'prj-1' });
  await session.cancel();
  const run = await session.runWithCalls(['call_1']);
  await session.beginTool(run, [1, 1, 1], 'call_1');
  const before = await session.row();
  expect(Object.values(before)).not.toContain(null);
  expect(await rows(db, `SELECT current_setting('is_superuser') AS it`)).toEqual([{ it: 'on' }]);
  const strays = [
    `session_id = '${newId('ses')}'`,
    `user_id = 'mallory'`,
    `project_id = 'prj-2'`,
    'project_id = NULL',
    ...PHASES.filter((phase) => phase !== 'chatting').map((phase) => `phase = '${phase}'`),
    'pending_tool = NULL',
    `pending_tool = '${JSON.stringify(pendingTool('call_2'))}'`,
    `cancel_token = 'mine'`,
    'cancel_token = NULL',
    'updated_at = now()',
    `phase = 'building', updated_at = now()`,
  ];
  expect(await slippedThrough(GUARDED, strays, (set) => stray(db, session, set))).toEqual([]);
  expect(await session.row()).toEqual(before);
});

it('S2 an unset column cannot be set by a stray UPDATE either', async () => {
  const session = await Session.at('chatting', db);
  const strays = [`project_id = 'p'`, `pending_tool = '${JSON.stringify(pendingTool('c'))}'`, `cancel_token = 't'`];
  expect(await slippedThrough(GUARDED, strays, (set) => stray(db, session, set))).toEqual([]);
});

it('S2 a session starts at chatting with no other column set', async () => {
  const insert = 'INSERT INTO sessions (session_id, user_id, phase, project_id, pending_tool, cancel_token) VALUES';
  const pending = `'${JSON.stringify(pendingTool('call_1'))}'`;
  const strays = [
    ...PHASES.filter((phase) => phase !== 'chatting').map((phase) => `'${phase}', NULL, NULL, NULL`),
    `'chatting', 'prj-1', NULL, NULL`,
    `'chatting', NULL, ${pending}, NULL`,
    `'chatting', NULL, NULL, 'token'`,
  ];
  expect(
    await slippedThrough(GUARDED, strays, (values) => db.query(`${insert} ('${newId('ses')}', 'ada', ${values})`)),
  ).toEqual([]);
  expect(await refusal(db.query(`${insert} ('${newId('ses')}', 'ada', 'chatting', NULL, NULL, NULL)`))).toBe('ok');
});

it('S2 a writer’s permission does not last for the rest of its transaction', async () => {
  const building = await Session.at('building', db);
  await inTransaction(async (client) => {
    const session = building.through(client);
    const refused = async (...sets: string[]) => {
      const slipped = await slippedThrough(GUARDED, sets, (set) => attempt(client, () => stray(client, session, set)));
      expect(slipped).toEqual([]);
    };
    await call(client, 'write_phase', [session.id, 'todo_done_build']);
    await refused(`phase = 'done'`);
    await call(client, 'write_project_id', [session.id, 'prj-1']);
    await refused(`project_id = 'prj-2'`);
    await call(client, 'write_pending_tool', [session.id, JSON.stringify(pendingTool('call_1'))]);
    await refused('pending_tool = NULL');
    await call(client, 'write_cancel_token', [session.id, 'token']);
    await refused(`cancel_token = 'other'`);
    const failing = () => call(client, 'write_pending_tool', [session.id, '{}']);
    expect(await refusal(attempt(client, failing))).toBe(CHECKED);
    await refused('pending_tool = NULL');
    await session.cancel();
    await refused(`phase = 'building'`, 'updated_at = now()');
  });
});

it('S2 the setting of one writer permits no other column, and no illegal value of its own', async () => {
  const session = await Session.at('verifying', db, { project: 'prj-1' });
  await session.cancel();
  const strays: [writer: string, set: string][] = [
    ['pending_tool', `phase = 'building'`],
    ['phase', `cancel_token = 'other'`],
    ['cancel_token', `pending_tool = '${JSON.stringify(pendingTool('call_1'))}'`],
    ['phase', `phase = 'done'`],
    ['project_id', `project_id = 'prj-2'`],
    ['project_id', 'project_id = NULL'],
    ['cancel_token', 'cancel_token = NULL'],
  ];
  expect(
    await slippedThrough(GUARDED, strays, ([writer, set]) =>
      inTransaction(async (client) => {
        await client.query(`SELECT set_config('perdure.writer', $1, true)`, [writer]);
        await stray(client, session, set);
      }),
    ),
  ).toEqual([]);
});

const WRITES =
  /\b(?:UPDATE(?:\s+ONLY)?|INSERT\s+INTO|MERGE\s+INTO|DELETE\s+FROM|COPY|TRUNCATE(?:\s+TABLE)?)\s+(?:public\.)?"?sessions"?\b/gi;

it('S2 each column has one writer function, and no SQL elsewhere writes the table', async () => {
  const writers = await rows(
    db,
    `SELECT proname AS name, prosrc AS body FROM pg_proc WHERE pronamespace = 'public'::regnamespace`,
  );
  const columns: Record<string, string[]> = {};
  for (const { name, body } of writers as { name: string; body: string }[]) {
    for (const [, set] of body.matchAll(/UPDATE\s+sessions\s+(?:\w+\s+)?SET\s+(.*?)\s+(?:FROM|WHERE)\b/gis)) {
      columns[name] = [...set!.matchAll(/(\w+)\s*=/g)].map(([, column]) => column!);
    }
  }
  expect(columns).toEqual({
    write_phase: ['phase', 'updated_at'],
    write_project_id: ['project_id', 'updated_at'],
    write_pending_tool: ['pending_tool', 'updated_at'],
    write_cancel_token: ['cancel_token', 'updated_at'],
  });

  const found: Record<string, string[]> = {};
  const root = path.resolve(import.meta.dirname, '../..');
  const skipped = new Set(['node_modules', 'dist', '.perdure', 'coverage', '.git']);
  for await (const file of glob('**/*.{ts,tsx,sql,js}', { cwd: root, exclude: (name) => skipped.has(name) })) {
    if (/\.test\.tsx?$/.test(file)) continue;
    const writes = (await readFile(path.join(root, file), 'utf8')).match(WRITES);
    if (writes) found[file] = writes.map((write) => write.replaceAll(/\s+/g, ' '));
  }
  expect(found).toEqual({
    'store/sql/erasure.sql': ['DELETE FROM sessions'],
    'store/sql/sessions.sql': [...Array.from({ length: 4 }, () => 'UPDATE sessions'), 'INSERT INTO sessions'],
  });
  const inserting = writers.filter(({ body }) => /INSERT\s+INTO\s+sessions\b/i.test(body as string));
  expect(inserting.map(({ name }) => name)).toEqual(['open_session']);
});

/** Length of an object as jsonb text, which has a space after every colon and comma. */
function jsonbLength(value: object): number {
  const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${JSON.stringify(member)}`);
  return Buffer.byteLength(`{${members.join(', ')}}`);
}
