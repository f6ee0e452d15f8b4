import { expect, it } from 'vitest';
import { SEED } from '../../tools/test-kit/cases.ts';
import { makeAndReplay } from './random-histories.ts';

const HISTORIES = 24;

it('W5 some histories of random sessions on slow rows replay', async () => {
  const { count, broken } = await makeAndReplay(HISTORIES, SEED);
  expect(broken).toEqual([]);
  expect(count).toBeGreaterThanOrEqual(HISTORIES);
});
