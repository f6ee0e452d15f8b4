/** Milliseconds to wait after the given number of consecutive failures, from 1: exponential backoff with jitter. */
export function backoffMs(failures: number, { first = 500, longest = 5_000 } = {}): number {
  return Math.min(longest, first * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}
