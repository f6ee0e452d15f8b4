// A host on a free port, and callers of its API.
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import type { Client } from '@temporalio/client';
import type { UIMessageChunk } from 'ai';
import { pino } from 'pino';
import type { Catalog } from '../../client/catalog.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import type { ClientOptions } from '../../client/options.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import type { ModelInfo } from '../../domain/model-info.ts';
import type { PermissionRule } from '../../domain/permissions.ts';
import { loopbackUser } from '../../host/auth/loopback-user.ts';
import type { HostParts } from '../../host/context.ts';
import { Previews } from '../../host/files/previews.ts';
import { hostMetrics } from '../../host/host-metrics.ts';
import { createHost, type Host } from '../../host/host.ts';
import { afterFile } from './after-file.ts';
import { expectDescribed } from './described.ts';
import { keepLog } from './failed-file.ts';

export interface TestHostOptions {
  databaseUrl: string;
  /** Unset: Temporal cannot be reached. */
  temporal?: Client;
  models?: readonly string[];
  /** The first is the default. */
  agents?: readonly [string, ...string[]];
  /** The model of an agent's sessions that have no other; default: the first model. */
  modelOf?: (agent: string) => string | undefined;
  /** Of all agents; default true. */
  usesPhases?: boolean;
  /** The rules of all agents. */
  rules?: readonly PermissionRule[];
  workspaces?: string;
  /** Whether previews have host names below "localhost"; default true. */
  local?: boolean;
  parts?: Partial<HostParts>;
  clientOptions?: Partial<ClientOptions>;
}

/** A listening host, and the client that it uses. */
export interface TestHost {
  url: string;
  client: PerdureClient;
  /** Every route, in Hono's notation. */
  routes: Host['routes'];
  /** Its log, one parsed line each. */
  logs: (Record<string, unknown> & { msg: string; level: number })[];
  /** A caller of the API as this user. */
  as(user: string): TestCaller;
  /** The numbers of open streams, by the routes' names in the metrics. */
  openStreams(...routes: string[]): Promise<number[]>;
  /** Closes the server and its connections, as a process that ends; the returned function starts another on the same port. */
  goAway(): () => Promise<void>;
}

/** Calls the API as one user, and checks every response against the OpenAPI document. */
export interface TestCaller {
  fetch(path: string, init?: RequestInit): Promise<Response>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  delete(path: string): Promise<Answer>;
}

export interface Answer {
  status: number;
  headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- each test knows the shape that it expects
  body: any;
}

/** The secret that encrypts the preview tokens of test hosts. */
export const PREVIEW_SECRET = 'a secret of the tests';

const MODELS = ['openai/test', 'rehearsal/site-builder', 'openai/plain', 'openai/sees'];
/** Tokens at which a conversation with a model of the tests is compacted. */
const COMPACTED_AT = 100_000;
const MODEL_INFO: Omit<ModelInfo, 'model'> = {
  ...{ context_limit: 128_000, max_input: 128_000, max_output: 8_192 },
  ...{ tier: null, modalities: null, variants: ['high'] },
};
const MODEL_INFOS: Readonly<Record<string, Partial<ModelInfo>>> = {
  'openai/plain': { modalities: ['text', 'pdf'], variants: [] },
  'openai/sees': { modalities: ['text', 'image'] },
};

/** Starts a host and stops it after the file. Call it in a beforeAll. */
export async function startHost({
  databaseUrl,
  temporal,
  models = MODELS,
  agents = ['site-builder'],
  ...options
}: TestHostOptions): Promise<TestHost> {
  const logs: TestHost['logs'] = [];
  const log = pino({ level: 'debug' }, { write: (line) => void logs.push(JSON.parse(line) as TestHost['logs'][0]) });
  const infos = models.map((model) => ({ ...MODEL_INFO, ...MODEL_INFOS[model], model }));
  const catalog: Catalog = {
    agents,
    defaultAgent: agents[0],
    models: {
      find: (ref) => infos.find(({ model }) => model === ref),
      list: () => models,
      offered: () => infos,
      ofAgent: (agent) => options.modelOf?.(agent) ?? models[0] ?? 'openai/test',
      limitOf: (ref) => (ref.startsWith('openai/') ? COMPACTED_AT : undefined),
    },
    usesPhases: () => options.usesPhases ?? true,
    rulesOf: () => options.rules ?? [],
    workspaces: options.workspaces ?? '/tmp/perdure-no-workspaces',
  };
  const away = { connectionOptions: { address: '127.0.0.1:1' }, namespace: 'default' };
  const client = createClient({
    ...{ database: databaseUrl, temporal: temporal ?? temporalClient(away), catalog, log },
    ...options.clientOptions,
  });
  const parts: HostParts = {
    client,
    identify: loopbackUser(Buffer.alloc(32, 7)),
    log,
    metrics: hostMetrics(),
    maxBodyBytes: 1_048_576,
    previews: new Previews({
      workspaces: catalog.workspaces ?? '',
      secret: PREVIEW_SECRET,
      local: options.local ?? true,
    }),
    ...options.parts,
  };
  let listening = await listen(parts, 0);
  afterFile(async (kept) => {
    listening.end();
    await client.end();
    if (kept !== undefined) await keepLog(kept, 'host', logs);
  });
  const { host, port } = listening;
  const url = `http://127.0.0.1:${port}`;
  const goAway = () => {
    listening.end();
    return async () => void (listening = await listen(parts, port));
  };
  const openStreams = async (...names: string[]) => {
    const metrics = await parts.metrics.text();
    return names.map((name) =>
      Number(new RegExp(`^perdure_http_streams\\{route="${name}"\\} (\\d+)$`, 'm').exec(metrics)?.[1] ?? 0),
    );
  };
  return { url, client, routes: host.routes, logs, as: (user) => callerOf(url, user), openStreams, goAway };
}

/** A host on a port of the loopback interface; 0 is any free port. */
async function listen(parts: HostParts, at: number) {
  const host = createHost(parts);
  const server = createAdaptorServer({ fetch: host.fetch }) as Server;
  server.listen(at, '127.0.0.1');
  await once(server, 'listening');
  const end = () => {
    // Readers see their connections cut, as when a host dies, not streams that it ends.
    server.close(() => host.close());
    server.closeAllConnections();
  };
  return { host, port: (server.address() as AddressInfo).port, end };
}

/** A caller of the host at `url` as one user. */
export function callerOf(url: string, user: string): TestCaller {
  const call = async (path: string, init: RequestInit = {}) => {
    const headers = { 'x-perdure-user': user, ...(init.headers as Record<string, string>) };
    const response = await fetch(`${url}${path}`, { ...init, headers });
    await expectDescribed(url, init.method ?? 'GET', path, response);
    return response;
  };
  return {
    fetch: call,
    get: async (path) => answerOf(await call(path)),
    delete: async (path) => answerOf(await call(path, { method: 'DELETE' })),
    post: async (path, body, headers = {}) =>
      answerOf(
        await call(path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        }),
      ),
  };
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, headers: response.headers, body: isJson && text ? JSON.parse(text) : text };
}

/** One event of a stream; `event` is `message` if it has no name. */
export interface ServerSentEvent {
  event: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- each test knows the shape that it expects
  data: any;
}

/** The events of a response as they arrive, without comments and `[DONE]`. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerSentEvent> {
  let text = '';
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    // An event of megabytes comes in many pieces, and is put together once.
    const isWhole = piece.includes('\n\n') || (text.endsWith('\n') && piece.startsWith('\n'));
    text += piece;
    if (!isWhole) continue;
    const events = text.split('\n\n');
    text = events.pop()!;
    for (const event of events) {
      const lines = event.split('\n');
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field('data');
      if (data !== undefined && data !== '[DONE]') yield { event: field('event') ?? 'message', data: JSON.parse(data) };
    }
  }
}

/** All chunks of a UI message stream, until it ends. */
export async function chunksOf(response: Response): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = [];
  for await (const { data } of eventsOf(response)) chunks.push(data as UIMessageChunk);
  return chunks;
}
