#!/usr/bin/env node
// The host process: reads the configuration, listens on a port, shuts down gracefully.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Client } from '@temporalio/client';
import { Registry } from 'prom-client';
import type { AgentDefinition } from '../agent/definition/define.ts';
import { loadAgents } from '../agent/loading/agent-registry.ts';
import { createModels } from '../agent/models/models.ts';
import { loadProviders } from '../agent/models/providers.ts';
import { requireDefaultModels } from '../agent/models/require-default-models.ts';
import { scriptProvider } from '../agent/models/script-provider.ts';
import { countBus } from '../bus/count-bus.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import type { Catalog } from '../client/catalog.ts';
import { createClient } from '../client/client.ts';
import { temporalClient } from '../client/send/temporal-client.ts';
import { type Config, type DatabaseConfig, parseConfig, requireDatabase } from '../config/config.ts';
import { untilPostgresIsDirect } from '../config/direct-postgres.ts';
import { ConfigError } from '../config/error.ts';
import { createLogger, type Logger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
import { untilPostgresAccepts } from '../config/postgres.ts';
import { runProcess } from '../config/process.ts';
import { reloadLog } from '../config/reload-log.ts';
import { s3Of } from '../config/s3.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { untilReachable } from '../config/until-reachable.ts';
import { withTemporal } from '../config/with-temporal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import { cookieKey } from './auth/cookie-key.ts';
import { isLoopback, loopbackUser } from './auth/loopback-user.ts';
import { tokenUser } from './auth/token-user.ts';
import { catalogOf } from './catalog.ts';
import type { Identify } from './context.ts';
import { Previews } from './files/previews.ts';
import { hostMetrics } from './host-metrics.ts';
import { createHost } from './host.ts';
import { staticPage } from './http/static-page.ts';
import { createLimitedServer } from './process/create-limited-server.ts';
import { OrderlyStop } from './process/orderly-stop.ts';
import { requireOwnTaskQueue } from './process/require-own-task-queue.ts';
import { watchReach } from './process/watch-reach.ts';

const PAGE = path.join(import.meta.dirname, '..', 'web', 'dist');

async function configuredCatalog(config: Config, log: Logger): Promise<Catalog> {
  const reload = reloadLog(config, log, false);
  const own = await loadProviders(config.providersModule);
  const providers = { ...own, ...(await scriptProvider(config.model, reload)) };
  const catalog = loadModels(config.modelsFile);
  const models = createModels({ ...config, defaultModel: config.model, catalog, providers });
  const check = (all: readonly AgentDefinition[]) => requireDefaultModels(all, models);
  const agents = await loadAgents(config.agentsModule, [siteBuilder], { check, reload });
  let made: { from: readonly AgentDefinition[]; catalog: Catalog } | undefined;
  const current = () => {
    const from = agents.all();
    // Made once per load of the agents: it checks each and reads its skills.
    if (made?.from !== from)
      made = { from, catalog: catalogOf({ agents: from, models, workspaces: config.workspaces }) };
    return made.catalog;
  };
  return {
    ...current(),
    // They change when the agents are loaded again.
    get agents() {
      return current().agents;
    },
    get defaultAgent() {
      return current().defaultAgent;
    },
    get descriptions() {
      return current().descriptions ?? {};
    },
    get models() {
      return current().models;
    },
  };
}

async function identifyOf(config: Config): Promise<Identify> {
  const { jwtSecret, jwksUrl, jwtIssuer, jwtAudience, jwtAllowNoExp, host, dir, user, allowedOrigins } = config;
  if (jwtSecret !== undefined || jwksUrl !== undefined) {
    const issued = { issuer: jwtIssuer, audience: jwtAudience, allowNoExp: jwtAllowNoExp };
    return tokenUser({ secret: jwtSecret, jwksUrl, ...issued });
  }
  if (isLoopback(host)) return loopbackUser(await cookieKey(dir), user, allowedOrigins);
  throw new ConfigError([
    {
      name: 'PERDURE_HOST',
      expected: 'a loopback address such as 127.0.0.1, unless PERDURE_JWT_SECRET or PERDURE_JWKS_URL is set',
    },
  ]);
}

/**
 * Waits until both servers have accepted this host. Requests are served meanwhile, and `watchReach` logs what is absent.
 * @throws {ConfigError} naming the variable, if one of them refuses
 */
async function requireAccess(
  config: DatabaseConfig,
  workflows: Client,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const quiet = { warn: () => {} };
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  const describe = () => workflows.workflowService.describeNamespace({ namespace });
  const reachTemporal = () => withTemporal(connectionOptions, namespace, describe);
  try {
    await Promise.all([
      untilPostgresAccepts(quiet, 'DATABASE_URL', config.databaseUrl, signal),
      untilPostgresIsDirect(quiet, config, signal),
      untilReachable(quiet, 'Temporal', connectionOptions.address, reachTemporal, signal),
    ]);
    log.debug('Postgres and Temporal accept this host');
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Where Temporal's UI shows the workflows of a namespace. */
function workflowsUrl(ui: string | undefined, namespace: string): string | undefined {
  return ui && `${ui.replace(/\/+$/, '')}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}

async function main(_options: object, stopRequest: () => Promise<void>): Promise<void> {
  const config = requireDatabase(parseConfig(process.env));
  const log = createLogger('host', config);
  const temporal = temporalConnectConfig(config);
  const identify = await identifyOf(config);
  const catalog = await configuredCatalog(config, log);
  const registry = new Registry();
  const onError = (error: unknown) => log.warn({ err: error }, 'bus');
  const bus = createPostgresBus({ connectionString: config.directDatabaseUrl, onError });
  countBus(bus, registry);
  const workflows = temporalClient(temporal);
  const client = createClient({
    database: config.databaseUrl,
    bus,
    temporal: workflows,
    taskQueue: config.taskQueue,
    hideUsersKey: config.hideUsersKey,
    catalog,
    maxMessageBytes: config.maxMessageBytes,
    maxFileBytes: config.maxFileBytes,
    maxImportBytes: config.maxImportBytes,
    s3: s3Of(config),
    commandConnections: config.commandConnections,
    readConnections: config.readConnections,
    preparedStatements: config.preparedStatements,
    log,
  });
  const local = config.jwtSecret === undefined && config.jwksUrl === undefined;
  const page = await staticPage(PAGE, { local });
  const { workspaces, jwtSecret, dir } = config;
  const previews = new Previews({ workspaces, secret: jwtSecret ?? (await cookieKey(dir)), local });
  const metrics = hostMetrics(registry);
  const { maxBodyBytes, maxTranscriptBytes, maxReaders, maxRequests, allowedOrigins } = config;
  const limits = { maxBodyBytes, maxTranscriptBytes, maxReaders, maxRequests };
  const temporalWorkflows = workflowsUrl(config.temporalUi, temporal.namespace);
  const parts = { client, identify, log, metrics, ...limits, allowedOrigins, page, previews, temporalWorkflows };
  const host = createHost(parts);
  const orderlyStop = new OrderlyStop(host, config.readerTimeoutMs);
  const server = createLimitedServer(orderlyStop.serve, config);
  server.listen(config.port, config.host);
  await once(server, 'listening');

  const stopping = new AbortController();
  const addresses = { postgres: new URL(config.databaseUrl).host, temporal: temporal.connectionOptions.address };
  void watchReach(client, addresses, log, stopping.signal);
  const { port } = server.address() as AddressInfo;
  const name = config.host.includes(':') ? `[${config.host}]` : config.host;
  log.info({ url: `http://${name}:${port}` }, 'ready');

  const isStopped = stopRequest();
  const access = requireAccess(config, workflows, log, stopping.signal);
  const checks = [requireOwnTaskQueue(client, stopping.signal), access].map((check) => check.then(() => isStopped));
  await Promise.race([isStopped, ...checks]);
  log.info('stopping');
  stopping.abort();
  await orderlyStop.stop(server, { drainDelayMs: config.drainDelayMs, graceMs: config.shutdownGraceMs });
  await client.end();
  await bus.close();
  await workflows.connection.close();
  log.info('stopped');
}

await runProcess({ name: 'host', does: 'serves the HTTP API and the chat page' }, main);
