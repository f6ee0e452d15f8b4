// A host inside another server: below a base path, with the base path in the URL or removed from it.
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Chat } from '@ai-sdk/react';
import { createAdaptorServer } from '@hono/node-server';
import { DefaultChatTransport } from 'ai';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { SignJWT } from 'jose';
import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { PerdureError } from '../../domain/errors.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import {
  catalogOf,
  createHost,
  type HostParts,
  hostMetrics,
  nodeListener,
  Previews,
  tokenUser,
} from '../../host/index.ts';
import { watchReach } from '../../host/process/watch-reach.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBrowser, WAIT, watchErrors } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  runtime = await startRuntime({ script: (request) => [say(`You said: ${lastUserText(request)}`)] });
  const { databaseUrl, temporal, models, agents, workspaces } = runtime;
  const catalog = catalogOf({ agents: agents.list(), models, workspaces });
  client = createClient({ database: databaseUrl, temporal, catalog });
  afterFile(() => client.end());
});

/** The parts of a host whose callers name themselves in a header. */
function parts(more: Partial<HostParts> = {}): HostParts {
  const identify = async (request: Request) => {
    const user = request.headers.get('x-user');
    if (user === null) throw new PerdureError('Unauthorized', 'expected a header x-user');
    return { user };
  };
  const log = pino({ level: 'silent' });
  return { client, identify, log, metrics: hostMetrics(), maxBodyBytes: 1_048_576, ...more };
}

type Mount = (hostParts: HostParts) => Server | Promise<Server>;

const MOUNTS: readonly [name: string, mount: Mount][] = [
  [
    'in Hono, as a route',
    (hostParts) => {
      const host = createHost(hostParts);
      const app = new Hono().all('/tools/agent/*', (c) => host.fetch(c.req.raw));
      return createAdaptorServer({ fetch: app.fetch }) as Server;
    },
  ],
  [
    'in Hono, mounted, which removes the base path',
    (hostParts) => {
      const app = new Hono().mount('/tools/agent', createHost(hostParts).fetch);
      return createAdaptorServer({ fetch: app.fetch }) as Server;
    },
  ],
  [
    'in Express, used, which removes the base path',
    (hostParts) => createServer(express().use('/tools/agent', nodeListener(createHost(hostParts)))),
  ],
  [
    'in Express, as a route, after a parser that has read the body',
    (hostParts) => {
      const app = express().use(express.json());
      return createServer(app.all('/tools/agent/{*rest}', nodeListener(createHost(hostParts))));
    },
  ],
  [
    'in Fastify',
    async (hostParts) => {
      const listener = nodeListener(createHost(hostParts));
      const app = fastify();
      await app.register(async (scope) => {
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser('*', (_request, _body, done) => done(null));
        scope.all('/tools/agent/*', (request, reply) => {
          reply.hijack();
          return listener(request.raw, reply.raw);
        });
      });
      await app.ready();
      return app.server;
    },
  ],
];

/** Starts the server and stops it after the file. Returns its URL. */
async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterFile(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a host below a base path', () => {
  it.each(MOUNTS)('H5 %s, serves a chat of useChat, its documentation and its health', async (name, mount) => {
    const url = `${await listen(await mount(parts({ basePath: 'tools//agent/' })))}/tools/agent`;
    const headers = { 'x-user': 'ada' };
    const chat = new Chat({ id: name, transport: new DefaultChatTransport({ api: `${url}/api/chat`, headers }) });
    await chat.sendMessage({ text: 'hello' });
    expect(chat.error).toBeUndefined();
    expect(chat.messages[1]?.parts.at(-1)).toMatchObject({ type: 'text', text: 'You said: hello' });

    const opened = await fetch(`${url}/api/sessions`, { method: 'POST', headers });
    const location = opened.headers.get('location');
    expect(location).toMatch(/^\/tools\/agent\/api\/sessions\/ses_/);
    expect((await fetch(new URL(location!, url), { headers })).status).toBe(200);

    const ready = { ready: true, postgres: true, temporal: true };
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual(ready);
    expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ ok: true });
    for (const document of ['/openapi.json', '/api/openapi.json']) {
      expect(await (await fetch(`${url}${document}`)).json()).toMatchObject({ servers: [{ url: '/tools/agent' }] });
    }
    const unknown = await fetch(`${url}/api/nothing`, { headers });
    expect([unknown.status, await unknown.json()]).toMatchObject([404, { code: 'NotFound' }]);
    const anonymous = await fetch(`${url}/api/sessions`);
    expect([anonymous.status, await anonymous.json()]).toMatchObject([401, { code: 'Unauthorized' }]);
  });

  it('H5 shows its documentation in a browser, also where the base path is removed', async () => {
    const app = express().use('/tools/agent', nodeListener(createHost(parts({ basePath: '/tools/agent' }))));
    const url = await listen(createServer(app));
    const browser = await startBrowser();
    const page = await browser.newPage();
    page.setDefaultTimeout(WAIT.timeout);
    const isContent = watchErrors(page);
    await page.goto(`${url}/tools/agent/docs`);
    await page.locator('.opblock').first().waitFor();
    isContent();
    await page.close();
  });

  it('H5 gives the preview URL with the base path, and no host name of its own', async () => {
    const { workspaces } = runtime;
    const previews = new Previews({ workspaces, secret: 'a secret of this test', local: true });
    const host = createHost(parts({ basePath: '/tools/agent', previews }));
    const ask = (to: string) => host.fetch(new Request(`http://localhost${to}`, { headers: { 'x-user': 'ada' } }));
    const { session } = await client.openSession('ada');
    const { run_seq: run } = await client.submit('ada', session.session_id, { text: 'go' });
    for await (const _ of client.follow('ada', session.session_id, run));
    const root = previews.rootOf({ ...session, workspace_root: null });
    await writeFile(path.join(root, 'index.html'), '<p>hello');
    const files = await (await ask(`/tools/agent/api/sessions/${session.session_id}/files`)).json();
    expect(files).toMatchObject({ preview_site_url: null });
    const { preview_url } = files as { preview_url: string };
    expect(preview_url).toMatch(/^\/tools\/agent\/preview\//);
    const shown = await ask(preview_url);
    expect(await shown.text()).toBe('<p>hello');
    expect(shown.headers.get('content-security-policy')).toContain(`connect-src localhost${preview_url}`);
  });

  it('H5 a reader who goes away gives back its place', async () => {
    const url = await listen(
      createServer(express().use('/agent', nodeListener(createHost(parts({ basePath: '/agent', maxReaders: 1 }))))),
    );
    const headers = { 'x-user': 'reader' };
    const leaving = new AbortController();
    const first = await fetch(`${url}/agent/api/rendezvous`, { headers, signal: leaving.signal });
    expect(first.status).toBe(200);
    expect((await fetch(`${url}/agent/api/rendezvous`, { headers })).status).toBe(429);
    leaving.abort();
    await eventually(async () => {
      const again = await fetch(`${url}/agent/api/rendezvous`, { headers });
      await again.body?.cancel();
      expect(again.status).toBe(200);
    });
  });
});

describe('readiness', () => {
  const readyz = async (agents: readonly AgentDefinition[]) => {
    const { databaseUrl, temporal, models } = runtime;
    const other = createClient({ database: databaseUrl, temporal, catalog: catalogOf({ agents, models }) });
    const response = await createHost(parts({ client: other })).fetch(new Request('http://localhost/readyz'));
    await other.end();
    return [response.status, (await response.json()) as unknown] as const;
  };
  const ready = { ready: true, postgres: true, temporal: true };

  it('H2 a read-only database is not ready, which says so and is logged; the host is alive', async () => {
    const database = await freshDatabase();
    const [, name = ''] = new URL(database).pathname.split('/');
    await runtime.db.query(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
    const other = createClient({ database, temporal: runtime.temporal });
    const host = createHost(parts({ client: other }));
    const get = (at: string) => host.fetch(new Request(`http://localhost${at}`));
    const readiness = await get('/readyz');
    expect([readiness.status, await readiness.json()]).toEqual([
      503,
      { ...ready, ready: false, postgres: false, read_only: true },
    ]);
    expect((await get('/healthz')).status).toBe(200);
    const lines: string[] = [];
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const stop = new AbortController();
    const watched = watchReach(other, { postgres: 'there', temporal: 'there' }, log, stop.signal);
    await eventually(() => expect(lines.join('')).toContain('postgres is read-only at there'));
    stop.abort();
    await watched;
    await other.end();
  });

  it('H9 reports which agents host and workers do not share, and stays ready for the others', async () => {
    const more = { ...siteBuilder, id: 'only-here' };
    expect(await readyz([siteBuilder])).toEqual([200, ready]);
    expect(await readyz([siteBuilder, more])).toEqual([
      200,
      { ...ready, agents: { missing_in_workers: ['only-here'], missing_here: [] } },
    ]);
    const another = await runtime.startWorker({ agents: [siteBuilder, { ...siteBuilder, id: 'only-there' }] });
    const agents = { missing_in_workers: ['only-here'], missing_here: ['only-there'] };
    await eventually(async () => expect(await readyz([siteBuilder, more])).toEqual([200, { ...ready, agents }]));
    await another.stop();
    await eventually(async () => expect(await readyz([siteBuilder])).toEqual([200, ready]));
  });

  it('H9 the difference is logged once', async () => {
    const lines: Record<string, unknown>[] = [];
    const log = pino(
      { level: 'info' },
      { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) },
    );
    const { databaseUrl, temporal, models } = runtime;
    const agents = [{ ...siteBuilder, id: 'other' }];
    const other = createClient({ database: databaseUrl, temporal, catalog: catalogOf({ agents, models }) });
    const stop = new AbortController();
    const watched = watchReach(other, { postgres: 'there', temporal: 'there' }, log, stop.signal);
    const logged = () => lines.filter(({ msg }) => String(msg).includes('have different agents'));
    await eventually(() =>
      expect(logged()).toMatchObject([{ missing_in_workers: ['other'], missing_here: ['site-builder'] }]),
    );
    stop.abort();
    await watched;
    await other.end();
  });
});

describe('what the sign-in hook passes on', () => {
  const secret = 'a secret of at least thirty-two bytes';
  const sign = (claims: object) =>
    new SignJWT({ sub: 'ada', ...claims })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(Buffer.from(secret));
  const send = async (identify: HostParts['identify'], token: string, id: string) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const host = createHost(parts({ identify }));
    const post = (to: string, body: object) =>
      host.fetch(new Request(`http://localhost${to}`, { method: 'POST', headers, body: JSON.stringify(body) }));
    const { session } = await client.openSession('ada');
    const messages = `/api/sessions/${session.session_id}/messages`;
    const sent = await post(messages, { id, text: 'hello' });
    const message = { id: `${id}-chat`, role: 'user', parts: [{ type: 'text', text: 'hello' }] };
    const chatted = await post('/api/chat', { id: session.session_id, messages: [message] });
    await chatted.body?.cancel();
    const { rows } = await runtime.db.query<{ attributes: unknown }>(
      'SELECT attributes FROM chat_runs WHERE session_id = $1 ORDER BY seq',
      [session.session_id],
    );
    return { status: [sent.status, chatted.status], attributes: rows.map((row) => row.attributes), sent };
  };

  it('H3 is stored with the messages: what tokenUser takes from the claims, and no token', async () => {
    const identify = tokenUser({ secret, attributes: (claims) => ({ tenant: String(claims['org']) }) });
    const { status, attributes } = await send(identify, await sign({ org: 'acme' }), 'm1');
    expect([status, attributes]).toEqual([
      [202, 200],
      [{ tenant: 'acme' }, { tenant: 'acme' }],
    ]);
    const none = await send(tokenUser({ secret }), await sign({ org: 'acme' }), 'm2');
    expect([none.status, none.attributes]).toEqual([
      [202, 200],
      [null, null],
    ]);
  });

  it.each([
    ['the bearer token', 'an-opaque-token'],
    ['a JSON web token', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl'],
  ])('H3 is refused with %s in it, and nothing is stored', async (_name, token) => {
    const identify = async () => ({ user: 'ada', attributes: { tenant: 'acme', upstream: [`Bearer ${token}`] } });
    const { sent, attributes } = await send(identify, 'an-opaque-token', 'm3');
    expect([sent.status, await sent.json(), attributes]).toMatchObject([
      500,
      { detail: expect.stringContaining('identify returned attributes that cannot be stored: expected no token') },
      [],
    ]);
  });
});

describe('a new answer', () => {
  it('H3 has what the sign-in gives now, also if that is nothing; a library caller that gives none keeps the last', async () => {
    const { session } = await client.openSession('ada');
    const { session_id: id } = session;
    const said = await client.submit('ada', id, { id: 'again', text: 'hello' }, { attributes: { role: 'admin' } });
    const regenerate = async (attributes?: { role: string }) => {
      const host = createHost(parts({ identify: async () => ({ user: 'ada', attributes }) }));
      const message = { id: 'again', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
      const body = JSON.stringify({ id, trigger: 'regenerate-message', messages: [message] });
      const headers = { 'content-type': 'application/json' };
      const response = await host.fetch(new Request('http://localhost/api/chat', { method: 'POST', headers, body }));
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('[DONE]')]);
    };
    // A message that is still queued is not answered again.
    const answered = async ({ run_seq }: { run_seq: number }) => {
      for await (const chunks of client.followInBatches('ada', id, run_seq)) expect(chunks).not.toHaveLength(0);
    };
    const newest = async () => {
      const { rows } = await runtime.db.query<{ attributes: unknown }>(
        'SELECT attributes FROM chat_runs WHERE session_id = $1 ORDER BY seq',
        [id],
      );
      return rows.map(({ attributes }) => attributes);
    };
    await answered(said);
    await answered(await client.regenerate('ada', id, 'again'));
    await regenerate({ role: 'guest' });
    await regenerate();
    expect(await newest()).toEqual([{ role: 'admin' }, { role: 'admin' }, { role: 'guest' }, {}]);
    await expect(client.regenerate('ada', id, 'again', { attributes: [] as never })).rejects.toMatchObject({
      code: 'BadRequest',
    });
  });
});

describe('the parts of a host', () => {
  it.each([
    [{ temporalWorkflows: 'ftp://x' }, 'temporalWorkflows: expected the URL of workflows'],
    [{ basePath: '/a b' }, 'basePath: expected a path such as /perdure'],
    [{ basePath: '/a', page: () => undefined }, 'page: expected none with basePath'],
    [{ identify: undefined }, 'identify: expected a function of the request that returns { user }'],
    [{ client: undefined }, 'client: expected a client from createClient'],
    [{ maxBodyBytes: 0 }, 'maxBodyBytes: expected a whole number of bytes'],
    [{ basepath: '/a' }, 'basepath: no such option of createHost'],
  ])('H5 %j are refused by name', (wrong, message) => {
    expect(() => createHost({ ...parts(), ...wrong } as HostParts)).toThrow(message);
  });

  it.each([
    [
      'identify throws',
      { identify: () => fails() },
      '/api/sessions',
      'the hook identify threw an error: expected { user }',
    ],
    [
      'identify returns no user',
      { identify: async () => ({ user: '' }) },
      '/api/sessions',
      'the hook identify returned something else: expected { user }',
    ],
    [
      'identify returns an admin that is no boolean',
      { identify: async () => ({ user: 'ada', admin: Promise.resolve(false) as never }) },
      '/api/sessions',
      'the hook identify returned something else: expected admin to be true or false',
    ],
    [
      'identify returns a readsAll that is no boolean',
      { identify: async () => ({ user: 'ada', readsAll: 'no' as never }) },
      '/api/sessions',
      'the hook identify returned something else: expected readsAll to be true or false',
    ],
    [
      'identify returns attributes that are a promise',
      { identify: async () => ({ user: 'ada', attributes: Promise.resolve({}) as never }) },
      '/api/sessions',
      'the hook identify returned attributes that cannot be stored: expected a plain object',
    ],
    ['page throws', { page: () => fails() }, '/page', 'the hook page threw an error: expected a Response or undefined'],
  ])('H5 where %s, response and log name the hook, and only the log says why', async (_name, more, to, detail) => {
    const lines: string[] = [];
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const host = createHost(parts({ ...more, log }));
    const response = await host.fetch(new Request(`http://localhost${to}`));
    const text = await response.text();
    expect([response.status, text]).toEqual([500, expect.stringContaining(detail)]);
    expect(text).not.toContain('of its own');
    expect(lines.join('')).toContain(detail);
  });
});

function fails(): never {
  throw new Error('a reason of its own');
}
