import pLimit from 'p-limit';

/** Calls `each` for 0, 1, … count - 1, started in this order, at most `atOnce` at a time. */
export async function inParallel(count: number, atOnce: number, each: (n: number) => Promise<void>): Promise<void> {
  await pLimit(atOnce).map(Array(count).keys(), each);
}
