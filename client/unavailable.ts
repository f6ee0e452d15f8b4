/** SQLSTATE classes of a Postgres that cannot serve now: connection, resources, shutdown or restart. */
const SQL_CLASSES = new Set(['08', '53', '57']);
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
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error/;

/** True for a failure that says no more than that Postgres cannot be reached now. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return NODE_CODES.has(code) || (code.length === 5 && SQL_CLASSES.has(code.slice(0, 2)));
  return PG_WORDS.test(error.message) || (error instanceof AggregateError && error.errors.some(isUnavailable));
}
