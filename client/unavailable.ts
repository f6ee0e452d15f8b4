/**
 * SQLSTATE classes of a Postgres that cannot serve now: connection (08), resources (53), shutdown, restart or a statement
 * that took too long (57), system (58), a transaction that lost to another (40); a standby (25006), a transaction that was
 * left open for too long (25P03), a lock that was not had (55P03).
 */
const SQL_STATES = /^(?:(?:08|40|53|57|58).{3}|25006|25P03|55P03)$/;
const NODE_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EAI_AGAIN',
]);
/** What pg says without a code. */
const PG_WORDS =
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error|Query read timeout|timeout expired/;

/** True for a failure that says no more than that Postgres cannot be reached now. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return NODE_CODES.has(code) || SQL_STATES.test(code);
  return PG_WORDS.test(error.message) || (error instanceof AggregateError && error.errors.some(isUnavailable));
}
