import { expect, it } from 'vitest';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { shortCampaign } from './short.ts';

const LEAST_FAULTS = 20;
/** Of about fifty; some are about events that do not occur in every campaign. */
const LEAST_PROMISES = 45;

it('Q1 processes and servers die under load: every promise holds', { timeout: 240_000 }, async () => {
  const report = await shortCampaign(FAULT_KINDS, 25, 900);
  expect(report.injected.length).toBeGreaterThanOrEqual(LEAST_FAULTS);
  expect(report.turns).toBeGreaterThan(LEAST_FAULTS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
});
