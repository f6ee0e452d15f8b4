#!/usr/bin/env node
// The worker as a process of its own: configuration, what it is made of, and an orderly end.
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { createModels } from '../agent/models.ts';
import { loadAgents } from '../agent/registry.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { parseConfig, requireDatabase } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
import { runProcess } from '../config/process.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import { createPool } from '../store/db.ts';
import { workflowBundle } from './bundle.ts';
import { createWorker } from './create.ts';
import { serveMetrics } from './metrics-server.ts';
import { untilReachable } from './reach.ts';
import { logSdkTo } from './sdk-log.ts';
import { requireSearchAttributes } from './search-attributes.ts';

const PROVIDER_ATTEMPTS = 6;
/** Every stream writes through the pool, but only for a millisecond at a time. */
const CONNECTIONS = 20;

async function main(): Promise<void> {
  const config = requireDatabase(parseConfig(process.env));
  const log = createLogger('worker', config);
  logSdkTo(log);
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const agents = await loadAgents(config.agentsModule, [siteBuilder]);
  const models = createModels({ ...config, defaultModel: config.model, catalog: loadModels(config.modelsFile) });
  const db = createPool(config.databaseUrl, { max: CONNECTIONS });
  const onError = (error: unknown) => log.warn({ err: error }, 'bus');
  const bus = createPostgresBus({ connectionString: config.directDatabaseUrl, onError });

  const { host } = new URL(config.databaseUrl);
  await untilReachable(log, 'Postgres', host, () => db.query('SELECT FROM schema_migrations'));
  const [connection, clientConnection] = await untilReachable(log, 'Temporal', connectionOptions.address, () =>
    Promise.all([NativeConnection.connect(connectionOptions), Connection.connect(connectionOptions)]),
  );
  await requireSearchAttributes(clientConnection, namespace);
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const metrics =
    config.metricsPort === undefined ? undefined : serveMetrics(registry, config.host, config.metricsPort);
  const workflows = await workflowBundle(path.join(config.dir, 'cache'));
  const settings = { ...config, providerAttempts: PROVIDER_ATTEMPTS };
  const parts = { connection, clientConnection, namespace, db, bus, agents, models, log, registry, settings };
  const worker = await createWorker({ ...parts, workflowBundle: workflows });
  const drain = () => {
    log.info('draining');
    worker.shutdown();
  };
  process.once('SIGTERM', drain);
  process.once('SIGINT', drain);
  log.info({ agents: agents.list().map((agent) => agent.id), model: models.defaultRef }, 'ready');
  await worker.run();
  metrics?.close();
  await Promise.allSettled([bus.close(), db.end(), connection.close(), clientConnection.close()]);
  log.info('stopped');
}

await runProcess('worker', main);
