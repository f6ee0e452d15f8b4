import { expect } from 'vitest';

const TRIES = 3;

/**
 * Expects that the least time of three tries is at most `most` milliseconds: other tests take the machine's time. A try that is
 * in time is the last one.
 * @param work returns how many milliseconds it took
 * @param what it measures, for the error
 */
export async function expectLeastOfThree(what: string, most: number, work: () => Promise<number>): Promise<void> {
  const took: number[] = [];
  while (took.length < TRIES && !took.some((ms) => ms <= most)) took.push(await work());
  expect(Math.min(...took), `${what}: milliseconds of each try: ${took.join(', ')}`).toBeLessThanOrEqual(most);
}
