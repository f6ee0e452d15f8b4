import { setTimeout as delay } from 'node:timers/promises';
import { patient } from './patient.ts';

const POLL_MS = 10;
/** Costs nothing where the condition holds; while other tests have the machine, a process or a page may need seconds. */
const PATIENCE_MS = 30_000;

/**
 * Repeats `check` until it does not throw, and returns its result. Replaces sleeping for a fixed time.
 * @param options.timeout milliseconds, 30 s by default; longer on a slow machine
 * @throws the last error after the time-out
 */
export async function eventually<T>(check: () => T | Promise<T>, options: { timeout?: number } = {}): Promise<T> {
  const deadline = performance.now() + patient(options.timeout ?? PATIENCE_MS);
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await delay(POLL_MS);
  }
}
