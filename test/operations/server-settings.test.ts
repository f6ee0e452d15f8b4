// A Temporal server with the settings of deploy/temporal-dynamic.yaml, and one with its own defaults.
import { pino } from 'pino';
import { afterAll, expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { startTemporal } from '../../tools/dev/temporal.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshNamespace } from '../../tools/test-kit/servers.ts';
import { warnOfMissingServerSettings } from '../../worker/server-settings.ts';

/** The server's defaults for the settings that a worker can check. */
const DEFAULTS = {
  'frontend.enableCancelWorkerPollsOnShutdown': false,
  'frontend.WorkerCommandsEnabled': false,
  'matching.longPollExpirationInterval': '1m',
  'matching.numTaskqueueWritePartitions': 4,
  'history.timerProcessorMaxTimeShift': '1s',
  'history.maxInFlightUpdates': 10,
};

/** A worker's warnings, and how long its check took, in milliseconds. */
async function warnings(address: string, namespace: string) {
  const lines: { key: string; docs: string; level: number }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
  const startedAt = performance.now();
  await warnOfMissingServerSettings({ address }, namespace, log);
  return { lines, ms: performance.now() - startedAt };
}

it('H1 a worker logs no warning on a server with our settings', async () => {
  const { address, namespace } = await freshNamespace();
  expect((await warnings(address, namespace)).lines).toEqual([]);
});

it('H1 a worker names each setting that the server lacks, with the page that explains it, within 10 s', async () => {
  const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const server = await startTemporal({ dir: scratchDir(), cacheDir, headless: true, dynamicConfig: DEFAULTS });
  afterAll(() => server.stop());
  const { lines, ms } = await warnings(server.address, 'default');
  expect(lines.map(({ key }) => key).toSorted()).toEqual(Object.keys(DEFAULTS).toSorted());
  for (const line of lines)
    expect(line).toMatchObject({ level: 40, docs: expect.stringContaining('operations.md') as string });
  expect(ms).toBeLessThan(10_000);
}, 60_000);
