// Servers and workers for a figure that cannot share them, because it kills or overloads them.
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { PerdureClient } from '../../client/client.ts';
import { parseConfig } from '../../config/config.ts';
import { createDatabase } from '../../dev/databases.ts';
import { startNodeProcess } from '../../dev/node-process.ts';
import type { TiedProcess } from '../../dev/spawn-tied.ts';
import { migrate } from '../../migrations/migrate.ts';
import { createPool } from '../../store/pool.ts';
import { createNamespace } from '../test-kit/namespaces.ts';
import { environment } from './environment.ts';
import type { Bench } from './figure.ts';

/** A database, a namespace and workers of one figure. */
export interface World {
  db: pg.Pool;
  client: PerdureClient;
  temporal: Awaited<ReturnType<typeof createNamespace>>['client'];
  workers: TiedProcess[];
  startWorker(): Promise<TiedProcess>;
  requests(key: string): Promise<number>;
}

/** Starts it, calls `use`, and stops it, whatever state its workers are in. */
export async function withWorld<T>(
  { system, say }: Bench,
  { name, workers: count }: { name: string; workers: number },
  use: (world: World) => Promise<T>,
): Promise<T> {
  await using stops = new AsyncDisposableStack();
  const database = await createDatabase(system.databaseUrl, `${name}_${randomUUID().slice(0, 8)}`);
  await migrate(database);
  const { namespace, client: temporal } = await createNamespace(system.temporalAddress);
  stops.defer(() => temporal.connection.close());
  const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const env = { ...process.env, ...environment({ ...system, databaseUrl: database, namespace, dir }) };
  const workers: TiedProcess[] = [];
  stops.defer(() => Promise.all(workers.map((worker) => end(worker))).then(() => {}));
  const startWorker = async () => {
    const worker = await startNodeProcess({
      name: `worker-of-${name}-${workers.length}`,
      entry: fileURLToPath(new URL('../../worker/main.ts', import.meta.url)),
      env,
      logDir: path.join(dir, 'bench'),
      graceMs: 2_000,
      say: () => {},
    });
    workers.push(worker);
    return worker;
  };
  await Promise.all(Array.from({ length: count }, startWorker));
  const log = { warn: (fields: object, message: string) => say(`${message} ${JSON.stringify(fields)}`) };
  const client = new PerdureClient({ database, temporal, maxMessageBytes: 262_144, log });
  stops.defer(() => client.end());
  const db = createPool(database);
  stops.defer(() => db.end());
  const requests = (key: string) => system.model.call<number>('requests', { key });
  return await use({ db, client, temporal, workers, startWorker, requests });
}

async function end(worker: TiedProcess): Promise<void> {
  try {
    process.kill(worker.pid, 'SIGCONT');
  } catch {
    // It has already exited.
  }
  await worker.stop();
}
