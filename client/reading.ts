import { PerdureError } from '../domain/errors.ts';
import { Bell, type SessionWatch } from './watch.ts';
import type { Pointer } from '../bus/bus.ts';

/** A reader reads again this often even if nothing tells it to: pointers may get lost. */
const READ_AGAIN_MS = 1_000;
/** What is not urgent waits so long for company. */
const SOON_MS = 30;
/** Postgres may be away for this many readings in a row before a reader gives up. */
const MAX_FAILURES = 30;

/** What a reading follows. */
export interface Reading<T> {
  sessionId: string;
  signal: AbortSignal | undefined;
  /** Whether a pointer is worth a look at once, in a moment together with what else comes, or not at all. */
  urgency(pointer: Pointer): 'now' | 'soon' | 'never';
  /** Reads what is there now; `done`: there is no more to come. */
  read(): Promise<{ items: T[]; done: boolean }>;
  onFailure(error: unknown): void;
}

/**
 * Reads when the bus tells and every second besides, one reading at a time, and yields what each has found. It listens
 * before it first reads, so that nothing falls between. Ends with `done` or the signal; what fails is tried again.
 */
export async function* keepReading<T>(watch: SessionWatch, reading: Reading<T>): AsyncGenerator<T[], void, void> {
  const bell = new Bell();
  let soon: NodeJS.Timeout | undefined;
  const leave = watch.watch(reading.sessionId, (pointer) => {
    const urgency = pointer === undefined ? 'now' : reading.urgency(pointer);
    if (urgency === 'now') bell.ring();
    else if (urgency === 'soon') soon ??= setTimeout(ringSoon, SOON_MS);
  });
  const ringSoon = () => {
    soon = undefined;
    bell.ring();
  };
  let failures = 0;
  try {
    while (reading.signal?.aborted !== true) {
      // What waited for company has it.
      clearTimeout(soon);
      soon = undefined;
      try {
        const { items, done } = await reading.read();
        failures = 0;
        if (items.length > 0) yield items;
        if (done) return;
      } catch (error) {
        if (error instanceof PerdureError || ++failures > MAX_FAILURES) throw error;
        reading.onFailure(error);
      }
      await bell.wait(READ_AGAIN_MS, reading.signal);
    }
  } finally {
    leave();
    clearTimeout(soon);
  }
}
