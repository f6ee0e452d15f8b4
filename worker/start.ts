import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Hooks } from '../activities/activity-context.ts';
import type { AgentDefinition } from '../agent/definition/define.ts';
import { loadAgents } from '../agent/loading/agent-registry.ts';
import { createModels } from '../agent/models/models.ts';
import { type CustomProviders, loadProviders } from '../agent/models/providers.ts';
import { requireDefaultModels } from '../agent/models/require-default-models.ts';
import { scriptProvider } from '../agent/models/script-provider.ts';
import type { Snapshots } from '../agent/snapshots.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { claimTaskQueue } from '../config/claim-task-queue.ts';
import { type Config, type DatabaseConfig, type Env, parseConfig, requireDatabase } from '../config/config.ts';
import { untilPostgresIsDirect } from '../config/direct-postgres.ts';
import { ConfigError } from '../config/error.ts';
import { grpcInterceptors } from '../config/grpc-interceptors.ts';
import { createLogger, type Logger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
import { untilPostgresAccepts } from '../config/postgres.ts';
import { reloadLog } from '../config/reload-log.ts';
import { s3Of } from '../config/s3.ts';
import { hideSecrets } from '../config/secrets.ts';
import { showUserWith } from '../config/show-user.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { NotYetError, untilReachable } from '../config/until-reachable.ts';
import { withTemporal } from '../config/with-temporal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import { hasGit } from '../examples/site-builder/git-command.ts';
import { workspaceSnapshots } from '../examples/site-builder/snapshots.ts';
import { missingMigrations } from '../migrations/migrate.ts';
import { Contents } from '../store/contents.ts';
import { installationId } from '../store/installation-id.ts';
import { createPool } from '../store/pool.ts';
import { createWorker, type SessionWorker } from './create.ts';
import { workflowBundle } from './sandbox/bundle.ts';
import { requireSearchAttributes } from './startup/require-search-attributes.ts';
import { requireSearchLanguage } from './startup/require-search-language.ts';
import { serveMetrics } from './startup/serve-metrics.ts';
import { warnOfMissingServerSettings } from './startup/server-settings.ts';

const PROVIDER_ATTEMPTS = 6;
/** All streams of a worker write through the pool, each for about a millisecond at a time. */
const CONNECTIONS = 20;

/** Options of `startWorker`; everything has a default. */
export interface WorkerOptions {
  /** Environment variables with the configuration; default: the process's. */
  env?: Env;
  /** The first is the default agent; default: those of PERDURE_AGENTS (never both), else the reference agent. */
  agents?: readonly AgentDefinition[];
  /** Model providers besides the built-in ones, by name; default: those of PERDURE_PROVIDERS (never both). */
  providers?: CustomProviders;
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
  /** Whether steps or tool calls are running. */
  isBusy(): boolean;
  /** After `stop`, for a process that exits before `done`: says to other workers that this one is gone. */
  endLease(): Promise<void>;
  /** Settles when the worker has ended and its connections are closed. */
  readonly done: Promise<void>;
}

/**
 * Starts a worker with the configuration of the environment. Waits for Postgres and Temporal without limit, and logs that.
 * @throws {ConfigError} naming every variable that cannot be used, the search attributes that the namespace lacks, the
 * task queue that belongs to another installation, or the search language that Postgres does not have
 * @throws {DefinitionError} naming an agent, tool, provider or default model that cannot be used
 * @throws {TypeError} naming an unknown option
 */
export async function startWorker(options: WorkerOptions = {}): Promise<StartedWorker> {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) throw new TypeError(`${unknown}: no such option of startWorker`);
  const config = requireDatabase(parseConfig(options.env ?? process.env));
  refuseBoth(config, options);
  const log = options.log ?? createLogger('worker', config);
  const snapshots = isReference(config, options) ? await snapshotsOf(config) : undefined;
  const { agents, models } = await definitions(config, options, log);
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
    contents: new Contents(parts.db, s3Of(config)),
    hooks: { ...(snapshots && { snapshots }), ...options.hooks },
    hide: hideSecrets(config),
    showUser: showUserWith(config.hideUsersKey),
  });
  log.info({ agents: agents.list().map((agent) => agent.id), model: models.defaultRef }, 'ready');
  const { clientConnection, namespace } = parts;
  const client = new Client({ connection: clientConnection, namespace });
  void warnOfMissingServerSettings(client, { namespace, taskQueue: config.taskQueue }, log);
  const done = runToEnd(worker, opened.move());
  const stop = () => {
    worker.shutdown();
    return done;
  };
  return { done, stop, isBusy: () => worker.isBusy(), endLease: () => worker.endLease() };
}

async function runToEnd(worker: SessionWorker, opened: AsyncDisposableStack): Promise<void> {
  try {
    await worker.run();
  } finally {
    await opened.disposeAsync();
  }
}

/** Whether the worker runs the reference agent. */
function isReference(config: Config, options: WorkerOptions): boolean {
  return options.agents === undefined && config.agentsModule === undefined;
}

/** @throws {ConfigError} if they need git and the machine has none */
async function snapshotsOf({ snapshots, maxSnapshotBytes }: Config): Promise<Snapshots | undefined> {
  if (snapshots === 'off') return undefined;
  if (snapshots === 'git' && !(await hasGit())) {
    throw new ConfigError([{ name: 'PERDURE_SNAPSHOTS', expected: 'copy or off, because git cannot be run here' }]);
  }
  return workspaceSnapshots(snapshots, maxSnapshotBytes);
}

/** @throws {ConfigError} for what both the environment and the options set */
function refuseBoth(config: Config, { agents, providers }: WorkerOptions): void {
  const both = [
    ...(agents && config.agentsModule !== undefined ? [['PERDURE_AGENTS', 'agents']] : []),
    ...(providers && config.providersModule !== undefined ? [['PERDURE_PROVIDERS', 'providers']] : []),
  ];
  if (both.length === 0) return;
  throw new ConfigError(
    both.map(([name = '', option]) => ({ name, expected: `nothing with \`${option}\` of startWorker` })),
  );
}

async function definitions(config: Config, options: WorkerOptions, log: Logger) {
  const catalog = loadModels(config.modelsFile);
  const reload = reloadLog(config, log, true);
  const own = options.providers ?? (await loadProviders(config.providersModule));
  const providers = { ...own, ...(await scriptProvider(config.model, reload)) };
  const models = createModels({ ...config, defaultModel: config.model, catalog, providers });
  const agents = await loadAgents(config.agentsModule, options.agents ?? [siteBuilder], {
    check: (all) => requireDefaultModels(all, models),
    reload,
  });
  return { agents, models };
}

/** The connections of a worker, once the servers answer. */
async function connect(config: DatabaseConfig, log: Logger) {
  const { databaseUrl, directDatabaseUrl } = config;
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  await untilPostgresAccepts(log, 'DATABASE_URL', databaseUrl);
  await untilPostgresIsDirect(log, config);
  const { preparedStatements } = config;
  const db = createPool(databaseUrl, { max: CONNECTIONS, preparedStatements, warn: (message) => log.warn(message) });
  const onError = (error: unknown) => log.warn({ err: error }, 'bus');
  const bus = createPostgresBus({ connectionString: directDatabaseUrl, onError });
  const opened: { close(): Promise<void> }[] = [bus, { close: () => db.end() }];
  const close = async () => {
    await Promise.allSettled(opened.map((each) => each.close()));
  };
  const asTemporal = <T>(work: () => Promise<T>) => withTemporal(connectionOptions, namespace, work);
  try {
    await untilReachable(log, 'Postgres', new URL(databaseUrl).host, () => requireMigrations(db));
    const connectClient = () =>
      asTemporal(() => Connection.connect({ ...connectionOptions, interceptors: grpcInterceptors() }));
    const clientConnection = await untilReachable(log, 'Temporal', connectionOptions.address, connectClient);
    opened.push(clientConnection);
    const connectNative = () => NativeConnection.connect(connectionOptions);
    const connection = await untilReachable(log, 'Temporal', connectionOptions.address, connectNative);
    opened.push(connection);
    await asTemporal(() => requireSearchAttributes(clientConnection, namespace));
    const installation = await installationId(db);
    await claimTaskQueue(clientConnection, { namespace, taskQueue: config.taskQueue, installation });
    await requireSearchLanguage(db, config.searchLanguage);
    return { parts: { connection, clientConnection, namespace, db, directDatabaseUrl, bus }, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @throws {NotYetError} naming the migrations that the schema lacks */
async function requireMigrations(db: ReturnType<typeof createPool>): Promise<void> {
  const missing = await missingMigrations(db);
  if (missing.length === 0) return;
  const list = missing.join(', ');
  throw new NotYetError(`the schema is older than this code: run \`perdure migrate\` (missing: ${list})`);
}
