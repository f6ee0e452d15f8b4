/**
 * Milliseconds of the machine's monotonic clock, which all processes share, so that times of two processes can be
 * subtracted.
 */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
