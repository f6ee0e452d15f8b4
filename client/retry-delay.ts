const FIRST_MS = 500;
const LONGEST_MS = 5_000;

/** Milliseconds until the next attempt: exponential backoff with jitter, at most 5 s. */
export function retryDelayMs(failures: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}
