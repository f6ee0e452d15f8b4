import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { ConfigError } from './error.ts';
import type { Logger } from './log.ts';
import { untilReachable } from './until-reachable.ts';
import { withPostgres } from './with-postgres.ts';

/** Through a pooler in session mode a notification comes at once. */
const NOTIFICATION_MS = 2_000;
const CONNECT_MS = 10_000;

interface DirectConfig {
  databaseUrl: string;
  directDatabaseUrl: string;
}

/** Waits until Postgres accepts a direct connection. @throws {ConfigError} as `requireDirectPostgres` */
export async function untilPostgresIsDirect(
  log: Pick<Logger, 'warn'>,
  config: DirectConfig,
  signal?: AbortSignal,
): Promise<void> {
  const { host } = new URL(config.directDatabaseUrl);
  await untilReachable(log, 'Postgres', host, () => requireDirectPostgres(config), signal);
}

/**
 * Connects to Postgres directly: LISTEN and the lock of migrations need a connection for themselves.
 * @throws {ConfigError} naming the variable, if Postgres refuses the connection, or if it leads to a pooler that gives it to
 *   others between transactions; else an error of the connection
 */
export async function requireDirectPostgres({ databaseUrl, directDatabaseUrl: url }: DirectConfig): Promise<void> {
  const isSet = url !== databaseUrl;
  const variable = isSet ? 'PERDURE_DIRECT_DATABASE_URL' : 'DATABASE_URL';
  if (await withPostgres(variable, url, () => isDirect(url))) return;
  const shared = `a pooler at ${new URL(url).host} that shares its connections between transactions`;
  const expected = isSet
    ? `Postgres itself, or a pooler in session mode: it leads to ${shared}`
    : `the URL of Postgres itself, for LISTEN and locks, because DATABASE_URL leads to ${shared} (it is not set)`;
  throw new ConfigError([{ name: 'PERDURE_DIRECT_DATABASE_URL', expected }]);
}

/** Whether a connection keeps what is set on it: it leads to one process of Postgres, or to a pooler that keeps it for this client. */
async function isDirect(url: string): Promise<boolean> {
  await using listener = await connect(url);
  const { rows } = await listener.client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  // A pooler gives its clients process ids of its own. It is not in the types of pg.
  if (rows[0]?.pid === (listener.client as { processID?: unknown }).processID) return true;
  await using notifier = await connect(url);
  const channel = pg.escapeIdentifier(`perdure ${randomUUID()}`);
  const { promise: notified, resolve } = Promise.withResolvers<boolean>();
  listener.client.on('notification', () => resolve(true));
  await listener.client.query(`LISTEN ${channel}`);
  await notifier.client.query(`NOTIFY ${channel}`);
  const timer = setTimeout(() => resolve(false), NOTIFICATION_MS);
  try {
    return await notified;
  } finally {
    clearTimeout(timer);
    await listener.client.query('UNLISTEN *').catch(() => {});
  }
}

async function connect(url: string) {
  const times = { connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS };
  const client = new pg.Client({ connectionString: url, ...times });
  // The connection may break before it is ended.
  client.on('error', () => {});
  await client.connect();
  return { client, [Symbol.asyncDispose]: () => client.end().catch(() => {}) };
}
