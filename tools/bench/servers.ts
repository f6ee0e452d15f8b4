// The measured system on one machine: Postgres with fsync, a Temporal server in memory, and a worker, a model server and
// a reader, each in a process of its own.
import { randomUUID } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { parseConfig } from '../../config/config.ts';
import { registerSearchAttributesAt } from '../../config/search-attributes.ts';
import { startNodeProcess } from '../../dev/node-process.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { migrate } from '../../migrations/migrate.ts';
import { createPool } from '../../store/pool.ts';
import { type Child, startChild } from './child.ts';
import { connectClient, type BenchClient } from './client.ts';
import { environment } from './environment.ts';
import { NAMESPACE } from './names.ts';

const WORKER_GRACE_MS = 5_000;

/** The running servers and processes. */
export interface System {
  databaseUrl: string;
  temporalAddress: string;
  db: pg.Pool;
  client: BenchClient;
  modelUrl: string;
  model: Child;
  /** Follows answers, like a host that did not accept the message. */
  reader: Child;
  /** Pids by role; `host` is this process, which sends and follows like a host. */
  pids(): { worker: number; host: number; postgres: number; temporal: number; model: number };
  /** Replaces the worker by a new process, with these settings in addition. */
  restartWorker(settings?: NodeJS.ProcessEnv): Promise<void>;
  /** Postgres' log so far. */
  postgresLog(): Promise<string>;
}

/** Starts everything, calls `use`, and always stops everything. */
export async function withSystem<T>(say: (line: string) => void, use: (system: System) => Promise<T>): Promise<T> {
  await using stops = new AsyncDisposableStack();
  // Not made by mkdtemp: the account that Postgres runs under has to get into it.
  const dir = path.join(tmpdir(), `perdure-bench-${randomUUID()}`);
  stops.defer(() => rm(dir, { recursive: true, force: true }));
  const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  say('starting Postgres, Temporal, model, worker and reader');
  const postgres = await startPostgres({ dir: path.join(dir, 'postgres'), log: say });
  stops.defer(() => postgres.stop());
  const temporal = await startTemporal({ dir, cacheDir, headless: true, log: say });
  stops.defer(() => temporal.stop());
  await migrate(postgres.url);
  await registerSearchAttributesAt({ address: temporal.address }, NAMESPACE);
  const model = await startChild('model');
  stops.defer(() => model.stop());
  const modelUrl = await model.call<string>('url');
  const env = {
    ...process.env,
    ...environment({ databaseUrl: postgres.url, temporalAddress: temporal.address, modelUrl, dir: cacheDir }),
    PERDURE_WORKSPACES: path.join(dir, 'workspaces'),
  };
  const startWorker = (settings: NodeJS.ProcessEnv = {}) =>
    startNodeProcess({
      name: 'worker',
      entry: fileURLToPath(new URL('../../worker/main.ts', import.meta.url)),
      env: { ...env, PGAPPNAME: 'worker', ...settings },
      logDir: path.join(cacheDir, 'bench'),
      graceMs: WORKER_GRACE_MS,
      say: (line) => void (/\[INFO\]|webpack|modules?\b|\[built\]/.test(line) || say(`worker: ${line}`)),
    });
  let worker = await startWorker();
  stops.defer(async () => void (await worker.stop()));
  const reader = await startChild('reader', { ...env, PGAPPNAME: 'reader' });
  stops.defer(() => reader.stop());
  const db = createPool(`${postgres.url}?application_name=bench`);
  stops.defer(() => db.end());
  process.env['PGAPPNAME'] = 'host';
  const client = connectClient(env);
  stops.defer(() => client.close());
  return await use({
    databaseUrl: postgres.url,
    temporalAddress: temporal.address,
    db,
    client,
    modelUrl,
    model,
    reader,
    pids: () => ({
      worker: worker.pid,
      host: process.pid,
      postgres: postgres.pid,
      temporal: temporal.pid,
      model: model.pid,
    }),
    restartWorker: async (settings) => {
      await worker.stop();
      worker = await startWorker(settings);
    },
    postgresLog: () => readFile(path.join(dir, 'postgres', 'postgres.log'), 'utf8'),
  });
}
