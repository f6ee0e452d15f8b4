// One Postgres and one Temporal server for the whole run; every test file takes a database and a namespace of its own.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { parseConfig } from '../config/config.ts';
import { createDatabase } from '../tools/dev/databases.ts';
import { startPostgres } from '../tools/dev/postgres.ts';
import { startTemporal } from '../tools/dev/temporal.ts';

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
const MIGRATE = new URL('../migrations/migrate.ts', import.meta.url);

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const scratch = path.join(tmpdir(), `perdure-test-${randomUUID()}`);
  const log = (line: string) => console.log(`test servers: ${line}`);
  // The cache of the Temporal CLI outlives the run, its log does not.
  const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const starting = [
    startPostgres({ dir: path.join(scratch, 'postgres'), ephemeral: true }),
    startTemporal({ dir: scratch, cacheDir: dir, headless: true, log }),
  ] as const;
  const stop = async () => {
    for (const server of await Promise.allSettled(starting)) {
      if (server.status === 'fulfilled') await server.value.stop();
    }
    await rm(scratch, { recursive: true, force: true });
  };
  try {
    const [postgres, temporal] = await Promise.all(starting);
    await migrateTemplate(await createDatabase(postgres.url, TEMPLATE));
    project.provide('postgresUrl', postgres.url);
    project.provide('templateDatabase', TEMPLATE);
    project.provide('temporalAddress', temporal.address);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

async function migrateTemplate(url: string): Promise<void> {
  if (!existsSync(MIGRATE)) return;
  const { migrate } = (await import(MIGRATE.href)) as { migrate(url: string): Promise<void> };
  await migrate(url);
}
