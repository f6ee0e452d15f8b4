import path from 'node:path';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Hooks } from '../activities/context.ts';
import type { AgentDefinition } from '../agent/define.ts';
import { createModels, type ModelSettings } from '../agent/models.ts';
import { agentRegistry, loadAgents } from '../agent/registry.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { type Config, type DatabaseConfig, type Env, parseConfig, requireDatabase } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { createLogger, type Logger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
import { hideSecrets } from '../config/secrets.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import { missingMigrations } from '../migrations/migrate.ts';
import { createPool } from '../store/db.ts';
import { workflowBundle } from './bundle.ts';
import { createWorker, type SessionWorker } from './create.ts';
import { serveMetrics } from './metrics-server.ts';
import { SchemaTooOld, untilReachable } from './reach.ts';
import { requireSearchAttributes } from './search-attributes.ts';
import { warnOfMissingServerSettings } from './server-settings.ts';

const PROVIDER_ATTEMPTS = 6;
/** All streams of a worker write through the pool, each for about a millisecond at a time. */
const CONNECTIONS = 20;

/** Options of `startWorker`; everything has a default. */
export interface WorkerOptions {
  /** Environment variables with the configuration; default: the process's. */
  env?: Env;
  /** The first is the default agent; default: those of PERDURE_AGENTS (never both), else the reference agent. */
  agents?: readonly AgentDefinition[];
  /** Model providers besides the built-in ones, by name. */
  providers?: NonNullable<ModelSettings['providers']>;
  hooks?: Hooks;
  log?: Logger;
  /** Further metrics to serve at PERDURE_METRICS_PORT, under other names, in Prometheus' text format. */
  moreMetrics?: () => Promise<string>;
}

const OPTIONS: Readonly<Record<keyof WorkerOptions, true>> = {
  env: true,
  agents: true,
  providers: true,
  hooks: true,
  log: true,
  moreMetrics: true,
};

/** A running worker. */
export interface StartedWorker {
  /** Stops taking work and waits for running work, at most for the grace period. */
  stop(): Promise<void>;
  /** Settles when the worker has ended and its connections are closed. */
  readonly done: Promise<void>;
}

/**
 * Starts a worker with the configuration of the environment. Waits for Postgres and Temporal without limit, and logs that.
 * @throws {ConfigError} naming every variable that cannot be used, or the search attributes that the namespace lacks
 * @throws {TypeError} naming an unknown option
 */
export async function startWorker(options: WorkerOptions = {}): Promise<StartedWorker> {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) throw new TypeError(`${unknown}: no such option of startWorker`);
  const config = requireDatabase(parseConfig(options.env ?? process.env));
  if (options.agents && config.agentsModule !== undefined) {
    throw new ConfigError([{ name: 'PERDURE_AGENTS', expected: 'nothing with `agents` of startWorker' }]);
  }
  const log = options.log ?? createLogger('worker', config);
  const { agents, models } = await definitions(config, options);
  await using opened = new AsyncDisposableStack();
  const { parts, close } = await connect(config, log);
  opened.defer(close);
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const { metricsPort } = config;
  const served = { host: config.host, more: options.moreMetrics };
  if (metricsPort !== undefined) {
    const metrics = await serveMetrics(registry, { ...served, port: metricsPort });
    opened.defer(() => void metrics.close());
  }
  const worker = await createWorker({
    ...parts,
    agents,
    models,
    log,
    registry,
    workflowBundle: await workflowBundle(path.join(config.dir, 'cache')),
    settings: { ...config, providerAttempts: PROVIDER_ATTEMPTS },
    hooks: options.hooks ?? {},
    hide: hideSecrets(config),
  });
  log.info({ agents: agents.list().map((agent) => agent.id), model: models.defaultRef }, 'ready');
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  void warnOfMissingServerSettings(connectionOptions, namespace, log);
  const done = runToEnd(worker, opened.move());
  const stop = () => {
    worker.shutdown();
    return done;
  };
  return { done, stop };
}

async function runToEnd(worker: SessionWorker, opened: AsyncDisposableStack): Promise<void> {
  try {
    await worker.run();
  } finally {
    await opened.disposeAsync();
  }
}

async function definitions(config: Config, { agents, providers = {} }: WorkerOptions) {
  const catalog = loadModels(config.modelsFile);
  return {
    agents: agents ? agentRegistry(agents) : await loadAgents(config.agentsModule, [siteBuilder]),
    models: createModels({ ...config, defaultModel: config.model, catalog, providers }),
  };
}

/** The connections of a worker, once the servers answer. */
async function connect(config: DatabaseConfig, log: Logger) {
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const db = createPool(config.databaseUrl, { max: CONNECTIONS });
  const onError = (error: unknown) => log.warn({ err: error }, 'bus');
  const bus = createPostgresBus({ connectionString: config.directDatabaseUrl, onError });
  await untilReachable(log, 'Postgres', new URL(config.databaseUrl).host, async () => {
    const missing = await missingMigrations(db);
    if (missing.length > 0) throw new SchemaTooOld(missing);
  });
  const [connection, clientConnection] = await untilReachable(log, 'Temporal', connectionOptions.address, () =>
    Promise.all([NativeConnection.connect(connectionOptions), Connection.connect(connectionOptions)]),
  );
  const close = async () => {
    await Promise.allSettled([bus.close(), db.end(), connection.close(), clientConnection.close()]);
  };
  try {
    await requireSearchAttributes(clientConnection, namespace);
  } catch (error) {
    await close();
    throw error;
  }
  return { parts: { connection, clientConnection, namespace, db, bus }, close };
}
