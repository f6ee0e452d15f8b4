// Short campaigns of `npm run chaos`. Long ones and their negative controls: docs/chaos.md.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { campaign, type Report } from '../../tools/chaos/campaign.ts';
import { FAULT_KINDS, type FaultKind } from '../../tools/chaos/faults.ts';
import { printed } from '../../tools/chaos/print.ts';

const TIMEOUT_MS = 240_000;
const LEAST_FAULTS = 20;
/** Of about fifty; some are about events that do not occur in every campaign. */
const LEAST_PROMISES = 45;
/** Faults that stop and cut off nothing. */
const SLOWNESS = ['postgres-slow', 'postgres-disk-slow', 'link-latency', 'link-loss'] as const;

/** Runs a campaign of seed 1 and expects no violation; its evidence is kept if there is one. */
async function run(faults: readonly FaultKind[], seconds: number, gapMs: number): Promise<Report> {
  const keep = path.join(tmpdir(), `perdure-chaos-evidence-${randomUUID()}`);
  const report = await campaign({ seed: 1, seconds, sessions: 6, faults, gapMs, broken: undefined }, keep, () => {});
  expect(report.violations, `${printed(report)}\nkept in ${keep}`).toEqual([]);
  await rm(keep, { recursive: true });
  return report;
}

it('Q1 processes and servers are killed under load: every promise holds', { timeout: TIMEOUT_MS }, async () => {
  const report = await run(FAULT_KINDS, 35, 1_300);
  expect(report.injected.length).toBeGreaterThanOrEqual(LEAST_FAULTS);
  expect(report.turns).toBeGreaterThan(LEAST_FAULTS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
});

it(
  'Q1 slow Postgres, disk and links: every promise holds, no step calls the model twice',
  { timeout: TIMEOUT_MS },
  async () => {
    const report = await run(SLOWNESS, 25, 1_500);
    expect(report.faults['postgres-slow']).toBeGreaterThanOrEqual(1);
    expect(report.turns).toBeGreaterThan(10);
  },
);
