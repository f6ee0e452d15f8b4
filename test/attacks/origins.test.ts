// Foreign pages in a real browser: of another site, of another port of this machine, and a site that an agent has built.
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type pg from 'pg';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBrowser, WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { userFolder } from '../../workspaces/paths.ts';
import { requestTo, type Route, routesOf, comparable } from './routes.ts';
import { allRows } from './rows.ts';

let host: TestHost;
let db: pg.Pool;
let routes: Route[];
let browser: Browser;
/** An attacker's server on this machine: the same site for a browser, but another origin. */
let elsewhere: string;
const workspaces = scratchDir();
const pages = new Map<string, string>();

beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  db = patientPool(databaseUrl);
  [host, browser] = await Promise.all([startHost({ databaseUrl, workspaces }), startBrowser()]);
  routes = await routesOf(host.url);
  const server = createServer((request, response) => {
    const page = pages.get(request.url ?? '');
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'text/html' }).end(page);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  elsewhere = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  afterFile(() => {
    server.close();
    server.closeAllConnections();
  });
});
afterAll(() => db.end());

const contexts: BrowserContext[] = [];
afterEach(async () => {
  for (const context of contexts.splice(0)) await context.close();
});

/** The browser of a user of this host: with its cookie, a session, and the session's folder. */
async function visitor() {
  const context = await browser.newContext();
  context.setDefaultTimeout(WAIT.timeout);
  contexts.push(context);
  const opened = await context.request.post(`${host.url}/api/sessions`, { data: {} });
  const { session_id, user_id } = ((await opened.json()) as { session: Record<'session_id' | 'user_id', string> })
    .session;
  const root = path.join(userFolder(workspaces, user_id), session_id);
  return { context, session: session_id, root };
}

/** A script that tries every request that a page can make, waits for all of them, and stores what it got. */
function attack(target: string, session: string): string {
  return `<!doctype html><title>at work</title><body><script type="module">
    const got = [];
    const note = (what, value) => got.push(what + ': ' + value);
    const settled = (work) => work.catch(() => {});
    const post = '${target}/api/sessions/${session}/messages';
    const body = JSON.stringify({ id: 'm-evil', text: 'evil' });
    await Promise.all([
      ...['same-origin', 'include', 'omit'].flatMap((credentials) => [
        settled(fetch('${target}/api/sessions', { credentials }).then(async (r) => note('read', await r.text()))),
        settled(fetch(post, { method: 'POST', body, credentials }).then(async (r) => note('posted', await r.text()))),
        settled(fetch(post, { method: 'POST', body, credentials, mode: 'no-cors' }).then((r) => note('blind', r.type))),
        settled(fetch('${target}/api/sessions/${session}', { credentials, mode: 'no-cors' })),
      ]),
      settled(fetch(post, { method: 'POST', body, headers: { 'content-type': 'application/json' } })),
      settled(fetch('${target}/metrics').then(async (r) => note('read', await r.text()))),
      settled(new Promise((resolve) => {
        const feed = new EventSource('${target}/api/rendezvous', { withCredentials: true });
        feed.onopen = () => { note('followed', 'open'); resolve(); };
        feed.onerror = () => { feed.close(); resolve(); };
      })),
      settled(new Promise((resolve) => {
        const script = Object.assign(document.createElement('script'), { src: '${target}/api/sessions/${session}' });
        script.onload = () => { note('script', 'loaded'); resolve(); };
        script.onerror = resolve;
        document.body.append(script);
      })),
      settled(new Promise((resolve) => {
        const frame = Object.assign(document.createElement('iframe'), { src: '${target}/api/sessions' });
        frame.onload = () => {
          try { note('framed', frame.contentDocument.body.innerText); } catch {}
          resolve();
        };
        document.body.append(frame);
      })),
      settled(new Promise((resolve) => {
        const form = Object.assign(document.createElement('form'), { method: 'POST', action: post, enctype: 'text/plain', target: 'sink' });
        form.append(Object.assign(document.createElement('input'), { name: '{"id":"m-form","text":"', value: '"}' }));
        const sink = Object.assign(document.createElement('iframe'), { name: 'sink' });
        document.body.append(sink, form);
        // The frame is empty until now: the next page that it loads is the response.
        sink.onload = resolve;
        form.submit();
        // A sandbox without forms ignores it silently.
        if (origin === 'null') resolve();
      })),
    ]);
    try { note('parent', parent.document.cookie + parent.document.body.innerText); } catch {}
    try { note('stored', localStorage.length); } catch {}
    try { note('cookie', document.cookie); } catch {}
    got.push('over');
    document.body.dataset.got = JSON.stringify(got.filter((each) => !/^(blind: opaque|parent: |stored: 0|cookie: )/.test(each) || /perdure_user|session_id/.test(each)));
  </script>`;
}

/** What an attack got, once it has finished. */
function resultOf(page: Pick<Page, 'evaluate'>): Promise<string[]> {
  return eventually(async () => {
    const got = await page.evaluate(() => document.body.dataset['got']);
    if (got === undefined) throw new Error('still running');
    return JSON.parse(got) as string[];
  });
}

describe('a foreign page', () => {
  it('Q3 on another port can read, write and stream nothing, although the browser has the user’s cookie', async () => {
    const { context, session } = await visitor();
    pages.set('/attack', attack(host.url, session));
    const before = await allRows(db);
    const page = await context.newPage();
    const sent: string[] = [];
    page.on('request', (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await page.goto(`${elsewhere}/attack`);
    expect(await resultOf(page)).toEqual(['over']);
    expect(sent, 'the attack sent it').toContain(`POST /api/sessions/${session}/messages`);
    expect(await allRows(db)).toEqual(before);
  });

  it('Q3 that the agent has built reads neither the API nor the page around it, in its preview frame and opened directly', async () => {
    const { context, session, root } = await visitor();
    await mkdir(root, { recursive: true });
    await writeFile(path.join(root, 'index.html'), attack(host.url, session));
    const before = await allRows(db);
    const files = await context.request.get(`${host.url}/api/sessions/${session}/files`);
    const { preview_url: preview } = (await files.json()) as { preview_url: string };
    const alone = await context.newPage();
    await alone.goto(host.url + preview);
    expect(await resultOf(alone)).toEqual(['over']);
    expect(await alone.evaluate(() => origin)).toBe('null');
    const around = await context.newPage();
    // Stands in for the chat page, at the same origin, which frames the preview the same way.
    await around.route(`${host.url}/around`, (route) =>
      route.fulfill({
        contentType: 'text/html',
        body: `<title>session_id</title><iframe sandbox="allow-scripts" src="${preview}"></iframe>`,
      }),
    );
    await around.goto(`${host.url}/around`);
    const frame = await eventually(() => {
      const found = around.frames().find((each) => each.url().includes('/preview/'));
      if (!found) throw new Error('no frame yet');
      return found;
    });
    expect(await resultOf(frame as unknown as Page)).toEqual(['over']);
    expect(await allRows(db)).toEqual(before);
  });

  it('Q3 cannot load a page or a response of this host in a frame', async () => {
    const { context, session } = await visitor();
    const framed = ['/docs', '/openapi.json', '/api/sessions', `/api/sessions/${session}/log`, '/metrics', '/nothing'];
    pages.set('/frames', framed.map((each) => `<iframe src="${host.url}${each}"></iframe>`).join(''));
    const page = await context.newPage();
    await page.goto(`${elsewhere}/frames`);
    await page.waitForLoadState('networkidle');
    const urls = page
      .frames()
      .slice(1)
      .map((frame) => frame.url());
    expect(urls).toHaveLength(framed.length);
    for (const frame of page.frames().slice(1)) {
      expect(frame.url()).toMatch(/^chrome-error:/);
    }
  });

  it('Q3 cannot send or read the host’s cookie, nor can scripts', async () => {
    const { context } = await visitor();
    const [cookie] = await context.cookies(host.url);
    expect(cookie).toMatchObject({ name: 'perdure_user', httpOnly: true, sameSite: 'Lax', path: '/' });
  });
});

describe('a request that a browser sends for a foreign page', () => {
  const ours = {
    id: 'ses_0123456789abXXXXXXXXXXXXXX',
    message_id: 'm1',
    tool_call_id: 'c1',
    digest: 'd',
    attachment_id: 'att_x',
    token: 't',
    file: 'index.html',
  };
  const signs: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://127.0.0.1:1' },
    { origin: 'http://localhost' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' },
  ];

  it('Q3 is 403 on every route with authentication, and no response allows other origins', async () => {
    for (const route of routes.filter((each) => !each.open)) {
      for (const headers of signs) {
        const { path: to, init } = requestTo(route, { params: ours });
        const response = await host.as('ada').fetch(to, { ...init, headers: { ...init.headers, ...headers } });
        expect([route.name, headers, response.status]).toEqual([route.name, headers, 403]);
        await response.body?.cancel();
      }
    }
    for (const method of ['OPTIONS', 'GET']) {
      const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' };
      const asked = await fetch(`${host.url}/api/sessions`, { method, headers });
      expect([...asked.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });

  it('Q3 gets headers with every response that forbid framing, sniffing and caching', async () => {
    for (const route of routes) {
      const { path: to, init } = requestTo(route, { params: ours });
      const response = await host.as('ada').fetch(to, init);
      const headers = Object.fromEntries(response.headers);
      expect(headers['x-content-type-options'], route.name).toBe('nosniff');
      expect(headers['content-security-policy'], route.name).toMatch(/frame-ancestors '(?:none|self)'/);
      expect(headers['referrer-policy'], route.name).toBe('no-referrer');
      expect(headers['cache-control'], route.name).toMatch(/no-store|no-cache/);
      await comparable(response);
    }
  });
});
