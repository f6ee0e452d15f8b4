// A Temporal server with the settings of deploy/temporal-dynamic.yaml, and one with its own defaults.
import path from 'node:path';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { promised } from '../../tools/test-kit/patient.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { parseConfig } from '../../config/config.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createNamespace } from '../../tools/test-kit/namespaces.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { warnOfMissingServerSettings } from '../../worker/server-settings.ts';
import { startWorker } from '../../worker/start.ts';

/** The server's defaults for the settings that a worker can check. */
const DEFAULTS = {
  'frontend.enableCancelWorkerPollsOnShutdown': false,
  'frontend.WorkerCommandsEnabled': false,
  'matching.longPollExpirationInterval': '1m',
  'matching.numTaskqueueWritePartitions': 4,
  'history.timerProcessorMaxTimeShift': '1s',
  'history.maxInFlightUpdates': 10,
};

/** A logger, and the lines that it has written. */
function logger() {
  const lines: { key?: string; docs?: string; level: number }[] = [];
  return { lines, log: pino({}, { write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[number]) }) };
}

it('H1 a worker logs no warning on a server with our settings', async () => {
  const { address, namespace } = await freshNamespace();
  const { lines, log } = logger();
  await warnOfMissingServerSettings({ address }, { namespace, taskQueue: 'perdure' }, log);
  expect(lines).toEqual([]);
});

it('H1 a worker names each setting that the server lacks, with the page that explains it, within 10 s of ready', async () => {
  const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const server = await startTemporal({ dir: scratchDir(), cacheDir, headless: true, dynamicConfig: DEFAULTS });
  afterFile(() => server.stop());
  const { namespace, client } = await createNamespace(server.address);
  afterFile(() => client.connection.close());
  const { lines, log } = logger();
  const worker = await startWorker({
    env: {
      DATABASE_URL: await freshDatabase(),
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: namespace,
      OPENAI_BASE_URL: 'http://127.0.0.1:9/v1',
      PERDURE_DIR: path.resolve('node_modules/.cache/perdure-settings'),
      PERDURE_WORKSPACES: scratchDir(),
    },
    log,
  });
  try {
    const missing = () => lines.filter(({ key }) => key !== undefined);
    const ready = performance.now();
    await eventually(() => expect(missing()).toHaveLength(Object.keys(DEFAULTS).length));
    expect(performance.now() - ready).toBeLessThanOrEqual(promised(10_000));
    expect(missing().map(({ key }) => key)).toEqual(expect.arrayContaining(Object.keys(DEFAULTS)));
    for (const line of missing())
      expect(line).toMatchObject({ level: 40, docs: expect.stringContaining('operations.md') as string });
  } finally {
    await worker.stop();
  }
});
