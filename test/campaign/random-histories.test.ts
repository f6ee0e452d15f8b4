import { expect, it } from 'vitest';
import { SEED } from '../../tools/test-kit/cases.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { makeAndReplay } from '../histories/random-histories.ts';

const HISTORIES = 500;

it(
  `W5 ${HISTORIES} histories of random sessions on slow rows replay`,
  { timeout: patient(300_000 + HISTORIES * 2_000) },
  async () => {
    const started = performance.now();
    const { sessions, count, events, broken } = await makeAndReplay(HISTORIES, SEED);
    const seconds = ((performance.now() - started) / 1_000).toFixed(0);
    console.log(
      `seed ${SEED}: ${broken.length} of ${count} histories of ${sessions} sessions broke, ${events} events, ${seconds} s`,
    );
    expect(broken, `seed ${SEED}`).toEqual([]);
    expect(count).toBeGreaterThanOrEqual(HISTORIES);
  },
);
