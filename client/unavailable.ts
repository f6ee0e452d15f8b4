/**
 * SQLSTATE classes and codes of transient failures: connection (08), resources (53), shutdown, restart or statement
 * timeout (57), system (58), serialization failure or deadlock (40); read-only standby (25006), idle transaction
 * timeout (25P03), lock timeout (55P03).
 */
const SQL_STATES = /^(?:(?:08|40|53|57|58).{3}|25006|25P03|55P03)$/;
const NODE_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
]);
/** Error messages of pg without a code. */
const PG_WORDS =
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error|Query read timeout|timeout expired/;

/** True if the error only means that Postgres cannot serve now. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return NODE_CODES.has(code) || SQL_STATES.test(code);
  return PG_WORDS.test(error.message) || (error instanceof AggregateError && error.errors.some(isUnavailable));
}
