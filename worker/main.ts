import path from 'node:path';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { createModels } from '../agent/models.ts';
import { loadAgents } from '../agent/registry.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { parseConfig } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
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

const config = parseConfig(process.env);
const log = createLogger('worker', config);
if (config.databaseUrl === undefined) {
  log.fatal('DATABASE_URL is not set: expected a URL such as postgres://user:password@host:5432/database');
  process.exit(1);
}
logSdkTo(log);
const { connectionOptions, namespace } = temporalConnectConfig(config);
const agents = await loadAgents(config.agentsModule, [siteBuilder]);
const models = createModels({ ...config, defaultModel: config.model, catalog: loadModels(config.modelsFile) });
const db = createPool(config.databaseUrl, { max: CONNECTIONS });
const bus = createPostgresBus({ connectionString: config.directDatabaseUrl ?? config.databaseUrl });

await untilReachable(log, 'Postgres', new URL(config.databaseUrl).host, () =>
  db.query('SELECT FROM schema_migrations'),
);
const [connection, clientConnection] = await untilReachable(log, 'Temporal', connectionOptions.address, () =>
  Promise.all([NativeConnection.connect(connectionOptions), Connection.connect(connectionOptions)]),
);
await requireSearchAttributes(clientConnection, namespace, log);
const registry = new Registry();
collectDefaultMetrics({ register: registry });
const metrics = config.metricsPort === undefined ? undefined : serveMetrics(registry, config.host, config.metricsPort);
const worker = await createWorker({
  registry,
  connection,
  clientConnection,
  namespace,
  db,
  bus,
  agents,
  models,
  log,
  workflowBundle: await workflowBundle(path.join(config.dir, 'cache')),
  settings: { ...config, providerAttempts: PROVIDER_ATTEMPTS },
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    log.info('draining');
    worker.shutdown();
  });
}
log.info({ agents: agents.list().map((agent) => agent.id), model: models.defaultRef }, 'ready');
await worker.run();
metrics?.close();
await Promise.allSettled([bus.close(), db.end(), connection.close(), clientConnection.close()]);
log.info('stopped');
