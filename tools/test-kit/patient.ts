/** How many times slower this machine is than a quick one, as tools/scripts/slowness.ts has measured before the run. */
const SLOWNESS = Number(process.env['TEST_SLOWNESS'] ?? 1);
if (!(SLOWNESS >= 1)) throw new Error('TEST_SLOWNESS: expected a number from 1 on');

/** A time limit in whole milliseconds, longer on a slow machine. For limits that only end what hangs, not for what a clause promises. */
export function patient(ms: number): number {
  return Math.round(ms * SLOWNESS);
}

/**
 * A time in milliseconds that a clause promises. `npm run campaign`, where nothing else runs, holds the product to it; beside other
 * tests it is only a limit for what hangs.
 */
export function promised(ms: number): number {
  return process.env['TEST_PROMISES'] === 'kept' ? ms : Math.max(ms, patient(30_000));
}
