import { setTimeout as delay } from 'node:timers/promises';

/**
 * Calls `task` after every interval until the signal fires, one call at a time. Settles when the last call has settled.
 * Intervals vary by 25 % so that workers that started together do not query together. `task` must not reject.
 */
export async function repeat(
  intervalMs: number,
  task: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await delay(intervalMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await task(signal);
  }
}
