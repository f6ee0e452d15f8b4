/**
 * SQLSTATE classes and codes of temporary errors: connection (08), transaction rollback (40), resources (53), operator
 * intervention (57), system (58); a cached plan that a migration made invalid (0A000), a read-only standby (25006), an idle
 * transaction time-out (25P03), a lock time-out (55P03). Source: PostgreSQL documentation, appendix A.
 */
const SQL_STATES = /^(?:(?:08|40|53|57|58).{3}|0A000|25006|25P03|55P03)$/;
/** Codes of failed connections, also for want of ports, file descriptors or memory. */
const NODE_CODES = new Set([
  'EADDRNOTAVAIL',
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'EMFILE',
  'ENETDOWN',
  'ENETUNREACH',
  'ENFILE',
  'ENOBUFS',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);
/** Error messages of pg without a code. */
const PG_WORDS =
  /timeout exceeded when trying to connect|connection terminated|client has encountered a connection error|query read timeout|timeout expired|not queryable/i;

/** Whether an error only means that Postgres cannot serve now. */
export function isTemporary(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return NODE_CODES.has(code) || SQL_STATES.test(code);
  return PG_WORDS.test(error.message) || (error instanceof AggregateError && error.errors.some(isTemporary));
}
