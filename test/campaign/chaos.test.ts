import { expect, it } from 'vitest';
import type { Report } from '../../tools/chaos/campaign.ts';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { shortCampaign } from '../chaos/short.ts';

// Well below what eight seeds gave on two cores: 24 to 29 faults, 46 to 90 turns, 74 to 84 promises, 53 to 162 changes.
const LEAST_FAULTS = 20;
const LEAST_TURNS = 20;
const LEAST_PROMISES = 65;
/** Rewinds, edits, new answers, compactions, branches, attachments. */
const LEAST_CHANGES = 15;
/** Nothing dies and nothing is cut off by them. */
const SLOWNESS = ['postgres-slow', 'postgres-disk-slow', 'link-latency', 'link-loss'] as const;

it('Q1 processes and servers die under load: every promise holds', { timeout: patient(240_000) }, async () => {
  const report = await shortCampaign({
    faults: FAULT_KINDS,
    seconds: 25,
    leastFaults: LEAST_FAULTS,
    leastChanges: 1,
    sessions: 5,
    gapMs: 900,
  });
  tell(report);
  expect(report.turns).toBeGreaterThanOrEqual(LEAST_TURNS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
  expect(changesIn(report.changes)).toBeGreaterThanOrEqual(LEAST_CHANGES);
});

it(
  'Q1 slow Postgres, disk and links: every promise holds, no step calls the model twice',
  { timeout: patient(240_000) },
  async () => {
    const report = await shortCampaign({ faults: SLOWNESS, seconds: 15, leastChanges: 1, sessions: 5, gapMs: 1_500 });
    expect(report.faults['postgres-slow']).toBeGreaterThanOrEqual(1);
    expect(report.turns).toBeGreaterThan(10);
  },
);

/** What a campaign has shown, for docs/campaign.md. */
function tell({ seed, injected, turns, checked, changes }: Report): void {
  const promises = Object.keys(checked).length;
  console.log(
    `seed ${seed}: ${injected.length} faults, ${turns} turns, ${promises} promises, ${changesIn(changes)} changes`,
  );
}

function changesIn(changes: Report['changes']): number {
  return Object.values(changes).reduce((sum, count) => sum + count, 0);
}
