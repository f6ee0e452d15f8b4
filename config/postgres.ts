import pg from 'pg';
import type { Logger } from './log.ts';
import { untilReachable } from './until-reachable.ts';
import { withPostgres } from './with-postgres.ts';

/**
 * Waits until Postgres accepts a connection.
 * @param variable the one that holds the URL
 * @throws {ConfigError} naming it, if Postgres refuses the user or has no such database
 */
export async function untilPostgresAccepts(
  log: Pick<Logger, 'warn'>,
  variable: string,
  url: string,
  signal?: AbortSignal,
): Promise<void> {
  const connect = async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // The connection may break before it is ended.
    client.on('error', () => {});
    await client.connect();
    await client.end();
  };
  await untilReachable(log, 'Postgres', new URL(url).host, () => withPostgres(variable, url, connect), signal);
}
