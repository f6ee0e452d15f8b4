// Chaos, slowness and random histories, one after the other, so that never two of them run at once.
import { randomInt } from 'node:crypto';
import { setPriority } from 'node:os';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../../tools/chaos/campaign.ts';
import { FAULT_KINDS } from '../../tools/chaos/faults.ts';
import { makeAndReplay, startRandomRuntime } from './histories.ts';
import { shortCampaign } from './short.ts';

const LEAST_FAULTS = 20;
/** Of about seventy; some are about events that do not occur in every campaign. */
const LEAST_PROMISES = 55;
/** Rewinds, edits, compactions, branches, attachments. */
const LEAST_CHANGES = 5;
/** Nothing dies and nothing is cut off by them. */
const SLOWNESS = ['postgres-slow', 'postgres-disk-slow', 'link-latency', 'link-loss'] as const;
/** SEED=… makes the same plans again, though what meets what still depends on the machine. */
const HISTORIES = Number(process.env['HISTORIES'] ?? 500);
const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31));
/** Below that of the other tests, which have time limits. */
const LOW_PRIORITY = 10;

it('Q1 processes and servers die under load: every promise holds', { timeout: 240_000 }, async () => {
  const report = await shortCampaign(FAULT_KINDS, 25, 900);
  expect(report.injected.length).toBeGreaterThanOrEqual(LEAST_FAULTS);
  expect(report.turns).toBeGreaterThan(LEAST_FAULTS);
  expect(Object.keys(report.checked).length).toBeGreaterThanOrEqual(LEAST_PROMISES);
  expect(changesIn(report)).toBeGreaterThanOrEqual(LEAST_CHANGES);
});

it(
  'Q1 slow Postgres, disk and links: every promise holds, no step calls the model twice',
  { timeout: 240_000 },
  async () => {
    const report = await shortCampaign(SLOWNESS, 15, 1_500);
    expect(report.faults['postgres-slow']).toBeGreaterThanOrEqual(1);
    expect(report.turns).toBeGreaterThan(10);
    expect(changesIn(report)).toBeGreaterThan(0);
  },
);

function changesIn({ changes }: Report): number {
  return Object.values(changes).reduce((sum, count) => sum + count, 0);
}

describe('random histories', () => {
  let runtime: Awaited<ReturnType<typeof startRandomRuntime>>;
  beforeAll(async () => {
    // They may take their time, so they run while the other tests wait. Last, because a process may not raise its priority again.
    setPriority(LOW_PRIORITY);
    runtime = await startRandomRuntime();
  }, 120_000);

  it(
    `W5 ${HISTORIES} histories of random sessions on slow rows replay (seed ${SEED})`,
    { timeout: 300_000 + HISTORIES * 2_000 },
    async () => {
      const started = performance.now();
      const { sessions, count, events, broken } = await makeAndReplay(runtime, HISTORIES, SEED);
      const seconds = ((performance.now() - started) / 1_000).toFixed(0);
      console.log(
        `seed ${SEED}: ${broken.length} of ${count} histories of ${sessions} sessions broke, ${events} events, ${seconds} s`,
      );
      expect(broken, `seed ${SEED}`).toEqual([]);
      expect(count).toBeGreaterThanOrEqual(HISTORIES);
    },
  );
});
