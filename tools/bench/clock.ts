/**
 * Milliseconds of the machine's monotonic clock: the same in all processes, so that a moment in one can be taken from
 * a moment in another.
 */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
