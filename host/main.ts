#!/usr/bin/env node
// The host process: reads the configuration, listens on a port, shuts down gracefully.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Registry } from 'prom-client';
import { createModels, type Models } from '../agent/models.ts';
import { loadAgents } from '../agent/registry.ts';
import type { Catalog } from '../client/catalog.ts';
import { countBus } from '../activities/process-metrics.ts';
import { createPostgresBus } from '../bus/postgres.ts';
import { createClient } from '../client/client.ts';
import { temporalClient } from '../client/temporal.ts';
import { type Config, parseConfig, requireDatabase } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { createLogger } from '../config/log.ts';
import { loadModels } from '../config/models.ts';
import { runProcess } from '../config/process.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import siteBuilder from '../examples/site-builder/agent.ts';
import type { Identify } from './context.ts';
import { cookieKey } from './cookie-key.ts';
import { createHost } from './host.ts';
import { isLoopback, loopbackUser } from './identify.ts';
import { hostMetrics } from './metrics.ts';
import { Previews } from './previews.ts';
import { watchReach } from './reach.ts';
import { createLimitedServer } from './server.ts';
import { staticPage } from './static-page.ts';
import { tokenUser } from './token.ts';
import { OrderlyStop } from './stop.ts';

const PAGE = path.join(import.meta.dirname, '..', 'web', 'dist');

async function catalogOf(config: Config): Promise<Catalog> {
  const agents = await loadAgents(config.agentsModule, [siteBuilder]);
  const models = createModels({ ...config, defaultModel: config.model, catalog: loadModels(config.modelsFile) });
  return {
    agents: agents.list().map((agent) => agent.id),
    defaultAgent: agents.default.id,
    models: { has: (ref) => canResolve(models, ref), list: () => models.list() },
    workspaces: config.workspaces,
  };
}

function canResolve(models: Models, ref: string): boolean {
  try {
    models.resolve(ref);
    return true;
  } catch {
    return false;
  }
}

async function identifyOf(config: Config): Promise<Identify> {
  const { jwtSecret, jwksUrl, jwtIssuer, jwtAudience, jwtAllowNoExp, host, dir } = config;
  if (jwtSecret !== undefined || jwksUrl !== undefined) {
    const issued = { issuer: jwtIssuer, audience: jwtAudience, allowNoExp: jwtAllowNoExp };
    return tokenUser({ secret: jwtSecret, jwksUrl, ...issued });
  }
  if (isLoopback(host)) return loopbackUser(await cookieKey(dir));
  throw new ConfigError([
    {
      name: 'PERDURE_HOST',
      expected: 'a loopback address such as 127.0.0.1, unless PERDURE_JWT_SECRET or PERDURE_JWKS_URL is set',
    },
  ]);
}

async function main(): Promise<void> {
  const config = requireDatabase(parseConfig(process.env));
  const log = createLogger('host', config);
  const temporal = temporalConnectConfig(config);
  const identify = await identifyOf(config);
  const registry = new Registry();
  const onError = (error: unknown) => log.warn({ err: error }, 'bus');
  const bus = createPostgresBus({ connectionString: config.directDatabaseUrl, onError });
  countBus(bus, registry);
  const workflows = temporalClient(temporal);
  const client = createClient({
    database: config.databaseUrl,
    bus,
    temporal: workflows,
    catalog: await catalogOf(config),
    maxMessageBytes: config.maxMessageBytes,
    commandConnections: config.commandConnections,
    readConnections: config.readConnections,
    log,
  });
  const local = config.jwtSecret === undefined && config.jwksUrl === undefined;
  const page = await staticPage(PAGE, { local });
  const { workspaces, jwtSecret, dir } = config;
  const previews = new Previews({ workspaces, secret: jwtSecret ?? (await cookieKey(dir)), local });
  const metrics = hostMetrics(registry);
  const { maxBodyBytes, maxTranscriptBytes, maxReaders } = config;
  const parts = { client, identify, log, metrics, maxBodyBytes, maxTranscriptBytes, maxReaders, page, previews };
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

  await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  log.info('stopping');
  stopping.abort();
  await orderlyStop.stop(server, { drainDelayMs: config.drainDelayMs, graceMs: config.shutdownGraceMs });
  await client.end();
  await bus.close();
  await workflows.connection.close();
  log.info('stopped');
}

await runProcess('host', main);
