import { callbackify } from 'node:util';
import pg from 'pg';
import { types } from './db.ts';
import { introduce, nameStatements } from './named-statements.ts';

/**
 * Time limits in milliseconds; the URL may override each. The first also limits what a new connection is asked. A local activity
 * of a workflow has 10 s, more than one of them and a statement take together. `query_timeout` is for a server that is frozen or
 * unreachable.
 */
const OF_CLIENT = { connectionTimeoutMillis: 3_000, query_timeout: 6_000 };
/**
 * The limits in Postgres. They are set when a connection is open, not by its start-up parameters, which poolers refuse or
 * ignore; what the URL has is such a parameter.
 */
const LIMITS = { statement_timeout: 5_000, lock_timeout: 4_000, idle_in_transaction_session_timeout: 10_000 };
/** Time until an idle connection sends TCP keep-alive probes. */
const KEEP_ALIVE_MS = 5_000;

export interface PoolOptions {
  /** Maximum number of connections; default 10. */
  max?: number | undefined;
  /** Whether statements are prepared under names. Unset: they are on connections that lead to Postgres without a pooler. */
  preparedStatements?: boolean | undefined;
  /** Called once if there is a pooler, and Postgres has no limits for its user. */
  warn?: ((message: string) => void) | undefined;
}

/** Creates a pool of connections. */
export function createPool(connectionString: string, options: PoolOptions = {}): pg.Pool {
  const { max = 10, preparedStatements, warn } = options;
  const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_MS };
  const limits = limitsBeside(connectionString);
  let isWarned = warn === undefined;
  /** Before a new connection is used. */
  const meet = async (client: pg.PoolClient) => {
    const timeoutMs = pool.options.connectionTimeoutMillis;
    const { isDirect, user, missing } = await introduce(client, { limits, timeoutMs });
    const named = preparedStatements ?? isDirect;
    nameStatements(client, named);
    // Also when a pooler is put in between while this process runs.
    if (!named) nameStatements(pool, false);
    if (isWarned || missing.length === 0) return;
    isWarned = true;
    warn?.(withoutLimits(user, missing));
  };
  const pool: pg.Pool = new pg.Pool({
    connectionString,
    max,
    types,
    ...OF_CLIENT,
    ...keepAlive,
    verify: callbackify(meet),
  });
  if (preparedStatements !== undefined) nameStatements(pool, preparedStatements);
  // Without listeners, a broken connection would end the process: an idle one, and one that is new or held, for which the pool does
  // not listen. The statement in progress, or the next one, reports the outage.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

function limitsBeside(connectionString: string): Record<string, number> {
  const given = URL.canParse(connectionString) ? new URL(connectionString).searchParams : new URLSearchParams();
  return Object.fromEntries(Object.entries(LIMITS).filter(([name]) => !given.has(name)));
}

function withoutLimits(user: string, missing: readonly string[]): string {
  const role = pg.escapeIdentifier(user);
  const lacking = Object.entries(LIMITS).filter(([name]) => missing.includes(name));
  const commands = lacking.map(([name, ms]) => `ALTER ROLE ${role} SET ${name} = ${ms}`);
  return `Postgres is used through a pooler and has no time limits for this user; set them with ${commands.join('; ')}`;
}
