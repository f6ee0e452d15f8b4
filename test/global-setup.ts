// One Postgres and one Temporal server for all projects of a run; every test file has its own database and namespace.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { parseConfig } from '../config/config.ts';
import { createDatabase } from '../dev/databases.ts';
import { startPostgres } from '../dev/postgres.ts';
import { startTemporal } from '../dev/temporal.ts';
import { migrate } from '../migrations/migrate.ts';

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
  const stop = () => (stopping ??= stopAll(starting, scratch));
  try {
    const [postgres, temporal] = await Promise.all(starting);
    await migrate(await createDatabase(postgres.url, TEMPLATE));
    return { postgresUrl: postgres.url, temporalAddress: temporal.address, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function stopAll(starting: readonly Promise<{ stop(): Promise<void> }>[], scratch: string): Promise<void> {
  for (const server of await Promise.allSettled(starting)) {
    if (server.status === 'fulfilled') await server.value.stop();
  }
  await rm(scratch, { recursive: true, force: true });
}
