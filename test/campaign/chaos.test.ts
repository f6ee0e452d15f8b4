import { expect, it } from 'vitest';
import type { Report } from '../../tools/chaos/campaign.ts';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { shortCampaign } from '../chaos/short.ts';

const LEAST_FAULTS = 15;
/** Of about seventy; some are about events that do not occur in every campaign. */
const LEAST_PROMISES = 45;
/** Rewinds, edits, compactions, branches, attachments. */
const LEAST_CHANGES = 1;
/** Nothing dies and nothing is cut off by them. */
const SLOWNESS = ['postgres-slow', 'postgres-disk-slow', 'link-latency', 'link-loss'] as const;

it('Q1 processes and servers die under load: every promise holds', { timeout: patient(240_000) }, async () => {
  const report = await shortCampaign({
    faults: FAULT_KINDS,
    seconds: 25,
    leastFaults: LEAST_FAULTS,
    sessions: 5,
    gapMs: 900,
  });
  expect(report.turns).toBeGreaterThan(LEAST_FAULTS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
  expect(changesIn(report)).toBeGreaterThanOrEqual(LEAST_CHANGES);
});

it(
  'Q1 slow Postgres, disk and links: every promise holds, no step calls the model twice',
  { timeout: patient(240_000) },
  async () => {
    const report = await shortCampaign({ faults: SLOWNESS, seconds: 15, sessions: 5, gapMs: 1_500 });
    expect(report.faults['postgres-slow']).toBeGreaterThanOrEqual(1);
    expect(report.turns).toBeGreaterThan(10);
    expect(changesIn(report)).toBeGreaterThan(0);
  },
);

function changesIn({ changes }: Report): number {
  return Object.values(changes).reduce((sum, count) => sum + count, 0);
}
