import { Random } from './random.ts';

/** What random inputs are made from. Always the same, unless TEST_SEED is set, as `npm run campaign` does. */
export const SEED = Number(process.env['TEST_SEED'] ?? 1);

/** Which cases a property test tries, and how many: `usual`, or TEST_CASES if set, for one long run of every property. */
export function cases(usual = 100): { seed: number; numRuns: number } {
  return { seed: SEED, numRuns: Number(process.env['TEST_CASES'] ?? usual) };
}

/** A source of random integers from 0 to `below - 1`. `name` distinguishes it from others of the same seed. */
export function randomIntegers(name: string): (below: number) => number {
  const random = new Random(SEED, name);
  return (below) => random.between(0, below - 1);
}
