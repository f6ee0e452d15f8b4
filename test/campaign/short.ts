// A short campaign of `npm run chaos`. Long ones and their negative controls: docs/chaos.md.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { campaign, type Report } from '../../tools/chaos/campaign.ts';
import type { FaultKind } from '../../tools/chaos/faults.ts';
import { printed } from '../../tools/chaos/print.ts';

/** Runs a campaign of seed 1 and expects no violation; its evidence is kept if there is one. */
export async function shortCampaign(faults: readonly FaultKind[], seconds: number, gapMs: number): Promise<Report> {
  const keep = path.join(tmpdir(), `perdure-chaos-evidence-${randomUUID()}`);
  const report = await campaign({ seed: 1, seconds, sessions: 5, faults, gapMs, broken: undefined }, keep, () => {});
  expect(report.violations, `${printed(report)}\nkept in ${keep}`).toEqual([]);
  await rm(keep, { recursive: true });
  return report;
}
