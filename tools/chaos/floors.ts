// What a campaign must have done to show anything: one in which nobody goes back or branches fails.
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { patient } from '../test-kit/patient.ts';
import type { Ledger } from './ledger.ts';

/** What users do to go back and to branch, as kinds of events. */
export const CHANGES = ['rewind', 'unrewind', 'edit', 'regenerate', 'branch'] as const;

/** The promises about them. */
const PROMISES = [
  'a row is hidden only by its own cause',
  'what was gone back over is hidden',
  'an un-rewind restores the same bytes',
  'an answer is replaced once',
  'a branch holds what its parent holds',
] as const;

const MOST_MS = patient(60_000);

/** Each of CHANGES was made this often, and each promise about them was checked as often. */
export function checkFloors(ledger: Ledger, made: Readonly<Record<string, number>>, least: number): void {
  if (least === 0) return;
  for (const kind of CHANGES) {
    const count = made[kind] ?? 0;
    ledger.check('users go back, and branch', kind, count >= least, () => `${count} times, ${least} expected`);
  }
  for (const promise of PROMISES) {
    const count = ledger.checked.get(promise) ?? 0;
    ledger.check('what users go back over is checked', promise, count >= least, () => `${count}, ${least} expected`);
  }
}

/** Waits until users have made each of CHANGES this often, but not forever. */
export async function untilChanged(db: pg.Pool, roundTrips: () => number, least: number): Promise<void> {
  if (least === 0) return;
  const until = Date.now() + MOST_MS;
  while (Date.now() < until) {
    const { rows } = await db.query<{ kind: string }>(
      `SELECT kind FROM session_events WHERE kind = ANY ($1) GROUP BY kind HAVING count(*) >= $2`,
      [CHANGES, least],
    );
    if (rows.length === CHANGES.length && roundTrips() >= least) return;
    await delay(200);
  }
}
