// The campaign of `npm run chaos`, a short one. The long one and its negative controls: docs/chaos.md.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { campaign } from '../../tools/chaos/campaign.ts';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { printed } from '../../tools/chaos/print.ts';

const SECONDS = 35;
const GAP_MS = 1_300;
const LEAST_FAULTS = 20;
/** Of about fifty; some are about what does not happen in every campaign. */
const LEAST_PROMISES = 45;

it('Q1 processes and servers die under load: every promise holds', { timeout: 180_000 }, async () => {
  const keep = path.join(tmpdir(), `perdure-chaos-evidence-${randomUUID()}`);
  const options = { seed: 1, seconds: SECONDS, sessions: 6, faults: FAULT_KINDS, gapMs: GAP_MS, broken: undefined };
  const report = await campaign(options, keep, () => {});
  // What was kept stays where it is when something is wrong.
  expect(report.violations, `${printed(report)}\nkept in ${keep}`).toEqual([]);
  await rm(keep, { recursive: true });
  expect(report.injected.length).toBeGreaterThanOrEqual(LEAST_FAULTS);
  expect(report.turns).toBeGreaterThan(LEAST_FAULTS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
});
