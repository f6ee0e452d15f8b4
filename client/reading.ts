import type { Pointer } from '../bus/bus.ts';
import { PerdureError } from '../domain/errors.ts';
import { AutoResetEvent } from './auto-reset-event.ts';
import { retryDelayMs } from './retry-delay.ts';
import type { SessionWatch } from './watch.ts';

/** What is not urgent is read together with what else happens within this time. */
const SOON_MS = 30;
/** A reader that could not read for so long gives up. */
const GIVE_UP_MS = 60_000;

/** What a reader follows. */
export interface Reading<T> {
  sessionId: string;
  signal: AbortSignal | undefined;
  /** Whether a pointer is a reason to read at once, in 30 ms, or not at all. */
  urgency(pointer: Pointer): 'now' | 'soon' | 'never';
  /** Reads what is new since the last time; `done`: there will be no more. */
  read(): Promise<{ items: T[]; done: boolean }>;
  onFailure(error: unknown): void;
}

/**
 * Reads once, then whenever the session changes, one reading at a time, and yields what each has found. It watches
 * before it first reads, so that no change is missed. Ends with `done` or the signal. A failed reading is tried again
 * for a minute.
 * @throws what `read` throws: a PerdureError at once, everything else after that minute
 */
export async function* keepReading<T>(watch: SessionWatch, reading: Reading<T>): AsyncGenerator<T[], void, void> {
  const wake = new AutoResetEvent();
  let soon: NodeJS.Timeout | undefined;
  const unwatch = watch.watch(reading.sessionId, (pointer) => {
    const urgency = pointer === undefined ? 'now' : reading.urgency(pointer);
    if (urgency === 'now') wake.set();
    else if (urgency === 'soon') soon ??= setTimeout(() => wake.set(), SOON_MS);
  });
  let failures = 0;
  let failingSince = 0;
  try {
    while (reading.signal?.aborted !== true) {
      clearTimeout(soon);
      soon = undefined;
      try {
        const { items, done } = await reading.read();
        failures = 0;
        if (items.length > 0) yield items;
        if (done) return;
      } catch (error) {
        if (failures === 0) failingSince = performance.now();
        if (error instanceof PerdureError || performance.now() - failingSince > GIVE_UP_MS) throw error;
        failures += 1;
        reading.onFailure(error);
      }
      await wake.wait(failures > 0 ? retryDelayMs(failures) : undefined, reading.signal);
    }
  } finally {
    unwatch();
    clearTimeout(soon);
  }
}
