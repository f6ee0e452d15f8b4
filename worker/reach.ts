import type { Logger } from 'pino';
import pRetry from 'p-retry';

/**
 * Calls `connect` until it succeeds, with backoff. Each failure is logged with the address that did not answer, or as
 * the error's own message if the schema is too old.
 */
export function untilReachable<T>(log: Logger, name: string, address: string, connect: () => Promise<T>): Promise<T> {
  return pRetry(connect, {
    retries: Infinity,
    minTimeout: 250,
    maxTimeout: 10_000,
    onFailedAttempt: ({ error, retryDelay }) => {
      const message = error instanceof SchemaTooOld ? error.message : `${name} cannot be reached at ${address}`;
      log.warn({ err: error, address, retry_in_ms: retryDelay }, message);
    },
  });
}

/** The schema lacks migrations that this code needs. */
export class SchemaTooOld extends Error {
  constructor(missing: readonly string[]) {
    super(`the schema is older than this code: run \`npm run migrate\` (missing: ${missing.join(', ')})`);
  }
}
