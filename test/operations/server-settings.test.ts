// A Temporal server with the settings of deploy/temporal-dynamic.yaml, and one with its own defaults.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { pino } from 'pino';
import { beforeAll, expect, it } from 'vitest';
import { parseConfig } from '../../config/config.ts';
import { COMPILE_CACHE } from '../../dev/node-process.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { createNamespace, type FreshNamespace } from '../../tools/test-kit/namespaces.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';
import { startWorker } from '../../worker/start.ts';
import { warnOfMissingServerSettings } from '../../worker/startup/server-settings.ts';

/** The server's defaults for the settings that a worker can read. */
const READABLE = {
  'frontend.enableCancelWorkerPollsOnShutdown': false,
  'frontend.WorkerCommandsEnabled': false,
  'matching.numTaskqueueWritePartitions': 4,
};
/** The server's defaults for the settings whose effect a client can observe. */
const DEFAULTS = {
  ...READABLE,
  'matching.longPollExpirationInterval': '1m',
  'history.timerProcessorMaxTimeShift': '1s',
  'history.maxInFlightUpdates': 10,
};

/** A namespace on the server with the defaults. */
let lacking: FreshNamespace;
beforeAll(async () => {
  const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const server = await startTemporal({ dir: scratchDir(), cacheDir, headless: true, dynamicConfig: DEFAULTS });
  afterFile(() => server.stop());
  lacking = await createNamespace(server.address);
  afterFile(() => lacking.client.connection.close());
});

/** A logger, and the lines that it has written. */
function logger() {
  const lines: { key?: string; docs?: string; msg: string; level: number }[] = [];
  return { lines, log: pino({}, { write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[number]) }) };
}

it('H1 a worker logs no warning on a server with our settings', async () => {
  const { client, namespace } = await freshNamespace();
  const { lines, log } = logger();
  await warnOfMissingServerSettings(client, { namespace, taskQueue: 'perdure' }, log);
  expect(lines).toEqual([]);
});

it('H1 a worker names each missing setting that it can read, and starts no workflow to find out', async () => {
  const { hostname, port } = new URL(`tcp://${lacking.address}`);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  afterFile(() => proxy.close());
  // Requests are not compressed, so the names of workflows and task queues stand in them.
  let probes = 0;
  proxy.holdBack = (chunk, direction) => {
    if (direction === 'up' && chunk.includes('perdure-server-check')) probes += 1;
    return 0;
  };
  const { lines, log } = logger();
  const worker = await startWorker({
    env: {
      DATABASE_URL: await freshDatabase(),
      TEMPORAL_ADDRESS: `${proxy.host}:${proxy.port}`,
      TEMPORAL_NAMESPACE: lacking.namespace,
      OPENAI_BASE_URL: 'http://127.0.0.1:9/v1',
      PERDURE_DIR: path.resolve('node_modules/.cache/perdure-settings'),
      PERDURE_WORKSPACES: scratchDir(),
    },
    log,
  });
  const missing = () => lines.filter(({ key }) => key !== undefined);
  try {
    await eventually(() => expect(missing().length).toBeGreaterThanOrEqual(Object.keys(READABLE).length));
  } finally {
    await worker.stop();
  }
  expect(probes).toBe(0);
  expect(missing().map(({ key }) => key)).toEqual(Object.keys(READABLE));
  for (const { key = '', ...line } of missing()) {
    expect(line).toMatchObject({ level: 40, docs: expect.stringContaining('operations.md') as string });
    expect(line.msg).toMatch(new RegExp(`${key}: \\w+.*; see docs/operations.md`));
  }
});

/** `npm run check-server` with these variables only. */
function checkServer(env: Record<string, string>): Promise<{ code: unknown; out: string; err: string }> {
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; out: string; err: string }>();
  const common = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILE_CACHE };
  execFile(
    process.execPath,
    ['dev/bin/perdure.ts', 'check-server'],
    { env: { ...common, ...env } },
    (error, out, err) => resolve({ code: error?.code ?? 0, out, err }),
  );
  return promise;
}

it('H1 check-server names each setting that the server lacks, its effect and the page that explains it, and exits with 1', async () => {
  const { address, namespace } = lacking;
  const { code, out, err } = await checkServer({ TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace });
  expect({ code, err }).toEqual({ code: 1, err: '' });
  const lines = out.trimEnd().split('\n');
  for (const key of Object.keys(DEFAULTS)) {
    expect(lines).toContainEqual(
      expect.stringMatching(new RegExp(`^missing  ${key}: \\w.*; see docs/operations.md#\\S+$`)),
    );
  }
  expect(lines.at(-1)).toMatch(/^not checked, .*: history.transferProcessorMaxPollRPS, /);
  expect(lines).toHaveLength(Object.keys(DEFAULTS).length + 1);
});

it('H1 check-server exits with 0 on a server with our settings', async () => {
  const { address, namespace } = await freshNamespace();
  const { code, out, err } = await checkServer({ TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace });
  expect({ code, err }, out).toEqual({ code: 0, err: '' });
  for (const key of Object.keys(DEFAULTS)) expect(out.split('\n')).toContain(`set      ${key}`);
});

it.each([
  ['a server that cannot be reached', { TEMPORAL_ADDRESS: '127.0.0.1:1' }, /cannot be reached at 127\.0\.0\.1:1 /],
  ['an address that is none', { TEMPORAL_ADDRESS: 'nonsense' }, /TEMPORAL_ADDRESS: expected an address/],
  ['a missing namespace', { TEMPORAL_NAMESPACE: 'nowhere' }, /TEMPORAL_NAMESPACE: expected a namespace.*"nowhere"/],
])('H1 check-server names %s, and exits with 1', async (_what, env, says) => {
  expect(await checkServer({ TEMPORAL_ADDRESS: lacking.address, ...env })).toEqual({
    ...{ code: 1, out: '' },
    err: expect.stringMatching(says),
  });
});
