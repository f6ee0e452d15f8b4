import type { RoundTrip } from '../going-back.ts';
import type { Ledger } from '../ledger.ts';

/** What was visible before rewinds is visible again when they are undone: the same bytes. */
export function checkRewinds(ledger: Ledger, trips: readonly (RoundTrip & { session: string })[]): void {
  for (const trip of trips) {
    const { before, after } = trip;
    const at = Array.from({ length: before.length }, (_, n) => n).findIndex((n) => before[n] !== after[n]);
    ledger.check('an un-rewind restores the same bytes', `session ${trip.session}`, before === after, () => ({
      before: before.slice(Math.max(0, at - 100), at + 100),
      after: after.slice(Math.max(0, at - 100), at + 100),
    }));
  }
}
