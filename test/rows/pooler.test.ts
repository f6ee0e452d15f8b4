// What is done on connections that lead to a pooler, and on those that do not. The real program: test/campaign/pgbouncer.test.ts.
import pg from 'pg';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { untilPostgresIsDirect } from '../../config/direct-postgres.ts';
import { untilPostgresAccepts } from '../../config/postgres.ts';
import { call, column, type Db } from '../../store/db.ts';
import { createPool } from '../../store/pool.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { startPoolerProxy } from '../../tools/test-kit/pooler-proxy.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';

const url = await freshDatabase();
const pooled = await startPoolerProxy(url);
const log = { warn: () => {} };

function ended<T extends pg.Pool>(pool: T): T {
  // A connection may still be closing when its database is dropped.
  pool.on('error', () => {});
  afterFile(() => pool.end());
  return pool;
}

/** The names that statements of the store leave on a connection. */
async function namesLeft(db: Db): Promise<unknown[]> {
  await column(db, z.number(), 'SELECT 1 AS one');
  await call(db, z.string(), 'upper', ['a']);
  const { rows } = await db.query<{ name: string }>('SELECT name FROM pg_prepared_statements');
  return rows;
}

it.each([
  ['a pool', () => patientPool(url, { max: 1 }), true],
  ['a pool with preparedStatements: false', () => patientPool(url, { max: 1, preparedStatements: false }), false],
  ['a pool through a pooler', () => patientPool(pooled, { max: 1 }), false],
  [
    'a pool through a pooler with preparedStatements: true',
    () => patientPool(pooled, { max: 1, preparedStatements: true }),
    true,
  ],
  ["a caller's pool", () => new pg.Pool({ connectionString: url, max: 1 }), true],
  ["a caller's pool through a pooler", () => new pg.Pool({ connectionString: pooled, max: 1 }), false],
])(
  'H1 %s, and a transaction on it, prepare statements under names only where that can work',
  async (_name, make, named) => {
    for (const first of ['pool', 'transaction']) {
      const pool = ended(make());
      if (first === 'pool') expect((await namesLeft(pool)).length > 0).toBe(named);
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        expect((await namesLeft(client)).length > 0).toBe(named);
        await client.query('ROLLBACK');
      } finally {
        client.release();
      }
    }
  },
);

it('H1 finds a pooler again that could not be reached when the first statement was executed', async () => {
  const pool = ended(createPool('postgres://u:p@127.0.0.1:1/none', { max: 1 }));
  await expect(namesLeft(pool)).rejects.toThrow('ECONNREFUSED');
  Object.assign(pool.options, { connectionString: pooled });
  expect(await namesLeft(pool)).toEqual([]);
});

it('Q1 a connection that breaks while it is introduced, or held between two statements, does not end the process', async () => {
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  afterFile(() => proxy.close());
  const pool = ended(patientPool(url.replace(`${hostname}:${port}`, `${proxy.host}:${proxy.port}`)));
  let broken = 0;
  proxy.holdBack = (chunk) => {
    if (chunk.includes('pg_backend_pid')) broken += proxy.reset();
    return 0;
  };
  await expect(pool.query('SELECT 1')).rejects.toThrow();
  expect(broken).toBe(1);
  proxy.holdBack = undefined;
  const held = await pool.connect();
  proxy.reset();
  await eventually(() => expect(held.query('SELECT 1')).rejects.toThrow('not queryable'));
  held.release(true);
  expect(await namesLeft(pool)).not.toEqual([]);
});

const LIMITS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'];
const limitsOn = async (pool: pg.Pool) =>
  Promise.all(LIMITS.map(async (name) => (await pool.query<Record<string, string>>(`SHOW ${name}`)).rows[0]?.[name]));

it('H1 sets time limits on direct connections, but for those in the URL', async () => {
  expect(await limitsOn(ended(patientPool(url)))).toEqual(['5s', '4s', '10s']);
  expect(await limitsOn(ended(patientPool(`${url}?lock_timeout=2000`)))).toEqual(['5s', '2s', '10s']);
});

it('H1 sets nothing on a connection through a pooler, and warns once of limits that the user lacks', async () => {
  const warnings: string[] = [];
  const pool = ended(patientPool(pooled, { warn: (message) => void warnings.push(message) }));
  expect(await limitsOn(pool)).toEqual(['0', '0', '0']);
  expect(warnings).toEqual([
    'Postgres is used through a pooler and has no time limits for this user; set them with ' +
      'ALTER ROLE "perdure" SET statement_timeout = 5000; ALTER ROLE "perdure" SET lock_timeout = 4000; ' +
      'ALTER ROLE "perdure" SET idle_in_transaction_session_timeout = 10000',
  ]);
});

it('H1 refuses a pooler that gives connections away between transactions where one is needed', async () => {
  const { host } = new URL(pooled);
  const shared = `a pooler at ${host} that shares its connections between transactions`;
  const refusals = await Promise.allSettled([
    untilPostgresIsDirect(log, { databaseUrl: pooled, directDatabaseUrl: pooled }),
    untilPostgresIsDirect(log, { databaseUrl: url, directDatabaseUrl: pooled }),
  ]);
  expect(refusals.map((each) => each.status === 'rejected' && (each.reason as Error).message)).toEqual([
    expect.stringMatching(
      'PERDURE_DIRECT_DATABASE_URL: expected the URL of Postgres itself, for LISTEN and locks, because DATABASE_URL leads to ' +
        `${shared} \\(it is not set\\)`,
    ),
    expect.stringMatching(
      `PERDURE_DIRECT_DATABASE_URL: expected Postgres itself, or a pooler in session mode: it leads to ${shared}`,
    ),
  ]);
  await untilPostgresIsDirect(log, { databaseUrl: pooled, directDatabaseUrl: url });
  const keeping = await startPoolerProxy(url, { notifies: true });
  await untilPostgresIsDirect(log, { databaseUrl: pooled, directDatabaseUrl: keeping });
});

it('H1 names a start-up parameter of the URL that a pooler refuses', async () => {
  const refusing = `${await startPoolerProxy(url, { refuses: 'statement_timeout' })}?statement_timeout=7000`;
  await expect(untilPostgresAccepts(log, 'DATABASE_URL', refusing)).rejects.toThrow(
    'DATABASE_URL: expected a URL without statement_timeout, which the pooler at',
  );
});
