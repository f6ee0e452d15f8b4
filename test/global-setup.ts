// One Postgres and one Temporal server for all projects of a run; every test file has its own database and namespace.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { parseConfig } from '../config/config.ts';
import { createDatabase } from '../dev/databases.ts';
import { type RunningPostgres, startPostgres } from '../dev/postgres.ts';
import { type RunningTemporal, startTemporal } from '../dev/temporal.ts';
import { migrate } from '../migrations/migrate.ts';
import { keptFolder } from '../tools/test-kit/failed-file.ts';
import {
  chooseDatabases,
  type KeptDatabase,
  keepServers,
  removeKept,
  whatIsKept,
} from '../tools/test-kit/failed-run.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of the run's Postgres; the database it names is for administration only. */
    postgresUrl: string;
    /** Name of the migrated database that fresh ones are copied from. */
    templateDatabase: string;
    /** host:port of the run's Temporal server. */
    temporalAddress: string;
  }
}

const TEMPLATE = 'perdure_template';

/**
 * Saves CPU: no system worker per namespace, which polls three task queues a second; little garbage collection. Tests may skip the
 * time of a workflow (tools/test-kit/skip-time.ts). An execution that has just been closed is deleted after at most this interval,
 * 30 s by default.
 */
const TEST_TEMPORAL = {
  dynamicConfig: {
    'worker.perNamespaceWorkerCount': 0,
    'frontend.WorkflowTimeSkippingEnabled': true,
    'history.transferProcessorUpdateAckInterval': '1s',
  },
  env: { ...process.env, GOGC: '1600', GOMEMLIMIT: '1536MiB' },
};

/** The run's servers. */
interface Servers {
  postgresUrl: string;
  temporalAddress: string;
  stop(): Promise<void>;
}

/** Vitest loads this file once per project, in one process: the first project starts the servers, all share them. */
const shared = globalThis as { perdureTestServers?: Promise<Servers> };

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const servers = await (shared.perdureTestServers ??= startServers());
  project.provide('postgresUrl', servers.postgresUrl);
  project.provide('templateDatabase', TEMPLATE);
  project.provide('temporalAddress', servers.temporalAddress);
  return servers.stop;
}

async function startServers(): Promise<Servers> {
  const kept = keptFolder();
  // A second look keeps what the first one has kept.
  if (kept !== undefined && process.env['TEST_KEPT'] === undefined) await removeKept(kept);
  const scratch = path.join(tmpdir(), `perdure-test-${randomUUID()}`);
  const log = (line: string) => console.log(`test servers: ${line}`);
  // The cached Temporal CLI is kept after the run, the server's log is not.
  const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const starting = [
    startPostgres({ dir: path.join(scratch, 'postgres'), ephemeral: true }),
    startTemporal({ dir: scratch, cacheDir: dir, headless: true, log, ...TEST_TEMPORAL }),
  ] as const;
  let stopping: Promise<void> | undefined;
  // Vitest ends its projects together, after the last test of the run.
  const stop = () => (stopping ??= stopAll(starting, { scratch, kept, log }));
  try {
    const [postgres, temporal] = await Promise.all(starting);
    await migrate(await createDatabase(postgres.url, TEMPLATE));
    return { postgresUrl: postgres.url, temporalAddress: temporal.address, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Stops the servers. If a file has failed, which has left its folder, their logs and its databases are kept. */
async function stopAll(
  starting: readonly [Promise<RunningPostgres>, Promise<RunningTemporal>],
  { scratch, kept, log }: { scratch: string; kept: string | undefined; log: (line: string) => void },
): Promise<void> {
  const [postgres, temporal] = await Promise.allSettled(starting);
  const failed = kept !== undefined && existsSync(kept) ? kept : undefined;
  let databases: KeptDatabase[] = [];
  try {
    if (failed !== undefined && postgres.status === 'fulfilled') {
      databases = await chooseDatabases(failed, postgres.value.url);
    }
  } finally {
    for (const server of [postgres, temporal]) if (server.status === 'fulfilled') await server.value.stop();
  }
  try {
    if (failed !== undefined) await keepServers(failed, scratch, databases);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  if (failed !== undefined) for (const line of whatIsKept(failed, databases)) log(line);
}
