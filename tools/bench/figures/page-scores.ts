// Lighthouse's scores of the chat page.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buildPage } from '../../scripts/build-page.ts';
import type { Figure, Result } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { lighthouseScores, type Scores } from '../lighthouse.ts';
import { median } from '../statistics.ts';

/** Of Lighthouse, whose scores vary. */
const VISITS = 3;
const LEAST_SCORE = 95;

async function scores(url: string): Promise<Result[]> {
  const results: Result[] = [];
  for (const device of ['desktop', 'phone'] as const) {
    const visits: Scores[] = [];
    for (let n = 0; n < VISITS; n += 1) visits.push(await lighthouseScores(url, device));
    for (const category of ['performance', 'accessibility'] as const) {
      const samples = visits.map((visit) => visit[category]);
      const name = `Lighthouse ${category}, ${device}`;
      results.push({
        name,
        value: median(samples),
        unit: '',
        target: { atLeast: LEAST_SCORE },
        detail: samples.join(', '),
      });
    }
  }
  return results;
}

/** A visit with Lighthouse takes half a minute. */
export const pageScores: Figure = {
  name: 'page-scores',
  onRequest: { withinMs: 10 * 60_000 },
  measure: async ({ system }) => {
    await using stops = new AsyncDisposableStack();
    await buildPage();
    const dir = path.join(tmpdir(), `perdure-bench-page-${randomUUID()}`);
    stops.defer(() => rm(dir, { recursive: true, force: true }));
    const host = await startHost(system, dir);
    stops.defer(async () => void (await host.stop()));
    return await scores(host.url);
  },
};
