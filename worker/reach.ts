import type { Logger } from 'pino';
import pRetry from 'p-retry';

const BACKOFF = { retries: Infinity, minTimeout: 250, maxTimeout: 10_000 };

/** Calls `connect` until it succeeds, with backoff. Each failure is logged with the address that did not answer. */
export function untilReachable<T>(log: Logger, name: string, address: string, connect: () => Promise<T>): Promise<T> {
  return pRetry(connect, {
    ...BACKOFF,
    onFailedAttempt: ({ error, retryDelay }) =>
      log.warn({ err: error, address, retry_in_ms: retryDelay }, `${name} cannot be reached at ${address}`),
  });
}

/** Waits until no migration is missing; `missing` returns the names of those that the schema lacks. */
export async function untilMigrated(log: Logger, missing: () => Promise<string[]>): Promise<void> {
  await pRetry(
    async () => {
      const names = await missing();
      if (names.length > 0) throw new SchemaTooOld(names);
    },
    {
      ...BACKOFF,
      onFailedAttempt: ({ error, retryDelay }) => {
        if (!(error instanceof SchemaTooOld)) throw error;
        log.warn({ missing: error.missing, retry_in_ms: retryDelay }, error.message);
      },
    },
  );
}

class SchemaTooOld extends Error {
  readonly missing: readonly string[];

  constructor(missing: readonly string[]) {
    super('the schema is older than this code: run `npm run migrate`');
    this.missing = missing;
  }
}
