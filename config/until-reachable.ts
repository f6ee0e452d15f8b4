import pRetry from 'p-retry';
import { ConfigError } from './error.ts';
import type { Logger } from './log.ts';

/** An error whose message says what is awaited, where that is not an answer of the server. */
export class NotYetError extends Error {}

/**
 * Calls `connect` until it succeeds, with backoff: a server that is absent may come. Each failure is logged with the address.
 * @throws {ConfigError} from `connect`, at once: waiting does not help
 */
export function untilReachable<T>(
  log: Pick<Logger, 'warn'>,
  name: string,
  address: string,
  connect: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  return pRetry(connect, {
    retries: Infinity,
    minTimeout: 250,
    maxTimeout: 10_000,
    ...(signal && { signal }),
    shouldRetry: ({ error }) => !(error instanceof ConfigError),
    onFailedAttempt: ({ error, retryDelay }) => {
      if (error instanceof ConfigError) return;
      const message = error instanceof NotYetError ? error.message : `${name} cannot be reached at ${address}`;
      log.warn({ err: error, address, retry_in_ms: retryDelay }, message);
    },
  });
}
