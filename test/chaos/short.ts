// A short campaign of `npm run chaos`. Long ones and their negative controls: docs/chaos.md.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { campaign, type Report } from '../../tools/chaos/campaign.ts';
import type { Options } from '../../tools/chaos/options.ts';
import { printed } from '../../tools/chaos/print.ts';
import { SEED } from '../../tools/test-kit/cases.ts';

/** Runs a campaign and expects no violation; its evidence is kept if there is one. */
export async function shortCampaign(options: Omit<Options, 'seed' | 'broken'>): Promise<Report> {
  const keep = path.join(tmpdir(), `perdure-chaos-evidence-${randomUUID()}`);
  const report = await campaign({ seed: SEED, broken: undefined, ...options }, keep, () => {});
  expect(report.violations, `${printed(report)}\nkept in ${keep}`).toEqual([]);
  await rm(keep, { recursive: true });
  return report;
}
