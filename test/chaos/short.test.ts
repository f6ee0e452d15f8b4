import { expect, it } from 'vitest';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { shortCampaign } from './short.ts';

/** Of about seventy; some are about events that do not occur in so short a time. */
const LEAST_PROMISES = 25;

it('Q1 processes and servers die under load for a few seconds: every promise holds', async () => {
  const report = await shortCampaign({ faults: FAULT_KINDS, seconds: 4, leastFaults: 1, sessions: 2, gapMs: 800 });
  expect(report.turns).toBeGreaterThan(0);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
});
