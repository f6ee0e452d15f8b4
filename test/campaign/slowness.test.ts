import { expect, it } from 'vitest';
import { shortCampaign } from './short.ts';

/** Nothing dies and nothing is cut off by them. */
const SLOWNESS = ['postgres-slow', 'postgres-disk-slow', 'link-latency', 'link-loss'] as const;

it(
  'Q1 slow Postgres, disk and links: every promise holds, no step calls the model twice',
  { timeout: 240_000 },
  async () => {
    const report = await shortCampaign(SLOWNESS, 15, 1_500);
    expect(report.faults['postgres-slow']).toBeGreaterThanOrEqual(1);
    expect(report.turns).toBeGreaterThan(10);
  },
);
