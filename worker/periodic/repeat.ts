import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';

/** A task that a worker repeats: its name for the log, and the interval in milliseconds. */
export interface Task {
  name: string;
  intervalMs: number;
  run: (signal: AbortSignal) => Promise<void>;
}

/**
 * Runs a task after every interval until the signal fires, one run at a time. Settles when the last run has settled.
 * Intervals vary by 25 % so that workers that started together do not query together. Of consecutive failures the first
 * is logged.
 */
export async function repeat({ name, intervalMs, run }: Task, log: Logger, signal: AbortSignal): Promise<void> {
  for (let isFailing = false; ;) {
    await delay(intervalMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      await run(signal);
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn({ err: error }, `${name} failed`);
      isFailing = true;
    }
  }
}
