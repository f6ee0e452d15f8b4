import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;

/** Tries until it works, with backoff, and says each time which address did not answer. */
export async function untilReachable<T>(
  log: Logger,
  name: string,
  address: string,
  connect: () => Promise<T>,
): Promise<T> {
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      return await connect();
    } catch (error) {
      log.warn({ err: error, address, retry_in_ms: wait }, `${name} cannot be reached at ${address}`);
      await sleep(wait);
    }
  }
}

/** Waits until the schema is as new as this code; `missing` names the migrations that it lacks. */
export async function untilMigrated(log: Logger, missing: () => Promise<string[]>): Promise<void> {
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const names = await missing();
    if (names.length === 0) return;
    log.warn({ missing: names, retry_in_ms: wait }, 'the schema is older than this code: run `npm run migrate`');
    await sleep(wait);
  }
}
