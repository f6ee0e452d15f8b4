import { backoffMs } from '../../bus/backoff.ts';
import type { Pointer } from '../../bus/bus.ts';
import { PerdureError } from '../../domain/errors.ts';
import { AutoResetEvent } from '../wait/auto-reset-event.ts';
import type { SessionWatch } from './session-watch.ts';

/** Non-urgent changes within this time are read together. */
const SOON_MS = 30;
/** A reader whose readings have failed for this long gives up. */
const GIVE_UP_MS = 60_000;

/** Of one reading. */
export interface ReadingOptions {
  isRetry?: boolean;
  signal?: AbortSignal | undefined;
}

/** How a session is followed. */
export interface ChangeReading<T> {
  sessionId: string;
  /** Whose `user:` state is followed with the session. */
  user?: string;
  signal: AbortSignal | undefined;
  /** Whether a pointer causes a reading at once, in 30 ms, or none. */
  urgency(pointer: Pointer): 'now' | 'soon' | 'never';
  /**
   * Reads what is new since the last reading; `done`: nothing more will follow. `againInMs`: the reading
   * is repeated after this time if nothing changes. `isRetry`: the last reading failed. `signal`: the reader's.
   */
  read(options: ReadingOptions): Promise<{ items: T[]; done: boolean; againInMs?: number }>;
  onFailure(error: unknown): void;
}

/**
 * Reads once, then on every change of the session, one reading at a time, and yields the items of each. Watching starts
 * before the first reading, so that no change is missed. Ends with `done`, the signal, or `close` of the watch. A failed
 * reading is retried for a minute.
 * @throws what `read` throws: a PerdureError at once, other errors after that minute
 */
export async function* readOnChange<T>(
  watch: SessionWatch,
  reading: ChangeReading<T>,
): AsyncGenerator<T[], void, void> {
  const wake = new AutoResetEvent();
  let soon: NodeJS.Timeout | undefined;
  const onChange = (pointer: Pointer | undefined) => {
    const urgency = pointer === undefined ? 'now' : reading.urgency(pointer);
    if (urgency === 'now') wake.set();
    else if (urgency === 'soon') soon ??= setTimeout(() => wake.set(), SOON_MS);
  };
  const unwatch = watch.watch(reading.sessionId, onChange, reading.user);
  const hasLeft = () => reading.signal?.aborted === true;
  let failures = 0;
  let failingSince = 0;
  try {
    let again: number | undefined;
    while (!hasLeft() && !watch.isClosed) {
      clearTimeout(soon);
      soon = undefined;
      try {
        const { items, done, againInMs } = await reading.read({ isRetry: failures > 0, signal: reading.signal });
        failures = 0;
        again = againInMs;
        if (items.length > 0) yield items;
        if (done) return;
      } catch (error) {
        if (hasLeft()) return;
        if (failures === 0) failingSince = performance.now();
        if (error instanceof PerdureError || performance.now() - failingSince > GIVE_UP_MS) throw error;
        failures += 1;
        reading.onFailure(error);
      }
      await wake.wait(failures > 0 ? backoffMs(failures) : again, reading.signal);
    }
  } finally {
    unwatch();
    clearTimeout(soon);
  }
}
