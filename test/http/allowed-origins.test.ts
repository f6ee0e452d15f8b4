// Pages of other origins: those that are allowed use the API like the host's own, all others not at all.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, expect, it } from 'vitest';
import { loopbackUser } from '../../host/index.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBrowser } from '../../tools/test-kit/browser.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let host: TestHost;
/** The front end's own server, on another port. */
let allowed: string;
beforeAll(async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<title>A front end</title>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterFile(() => {
    server.close();
    server.closeAllConnections();
  });
  allowed = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const identify = loopbackUser(Buffer.alloc(32, 7), undefined, [allowed]);
  host = await startHost({ databaseUrl: await freshDatabase(), parts: { identify, allowedOrigins: [allowed] } });
});

const corsOf = ({ headers }: Response) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control-')));

it('H3 a page of an allowed origin reads, writes and stays the same user, in a real browser', async () => {
  const browser = await startBrowser();
  const page = await browser.newPage();
  await page.goto(allowed);
  const seen = await page.evaluate(async (url) => {
    const credentials = 'include';
    const headers = { 'content-type': 'application/json' };
    const opened = await fetch(`${url}/api/sessions`, { method: 'POST', body: '{}', headers, credentials });
    const { session } = (await opened.json()) as { session: { session_id: string } };
    const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'hello' }] }];
    const body = JSON.stringify({ id: session.session_id, messages });
    const answer = await fetch(`${url}/api/chat`, { method: 'POST', body, headers, credentials });
    await answer.body?.cancel();
    const gone = await fetch(`${url}/api/sessions/ses_unknown`, { credentials });
    return {
      opened: opened.status,
      id: session.session_id,
      header: answer.headers.get('x-perdure-session'),
      problem: ((await gone.json()) as { code: string }).code,
    };
  }, host.url);
  expect(seen).toEqual({ opened: 201, id: seen.id, header: seen.id, problem: 'SessionNotFound' });
});

it('H3 an allowed origin is named exactly in preflights, answers and errors, and no other is', async () => {
  const ask = (origin: string, method: string, to = '/api/sessions') =>
    fetch(host.url + to, { method, headers: { origin, 'access-control-request-method': 'POST' } });
  const preflight = await ask(allowed, 'OPTIONS');
  expect([preflight.status, corsOf(preflight)]).toMatchObject([
    204,
    { 'access-control-allow-origin': allowed, 'access-control-allow-credentials': 'true' },
  ]);
  expect(preflight.headers.get('access-control-allow-methods')?.split(',')).toContain('DELETE');
  for (const [to, status] of [
    ['/api/sessions', 200],
    ['/api/nothing', 404],
    ['/openapi.json', 200],
  ] as const) {
    const answer = await ask(allowed, 'GET', to);
    expect([to, answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([to, status, allowed]);
    expect(answer.headers.get('vary')).toMatch(/origin/i);
  }
  const port = new URL(allowed).port;
  for (const other of ['https://evil.example', 'null', `http://localhost:${port}`, `http://127.0.0.1:${port}0`]) {
    for (const method of ['OPTIONS', 'GET']) {
      const answer = await ask(other, method);
      expect([other, answer.status >= 400, corsOf(answer)]).toEqual([other, true, {}]);
      expect(answer.headers.get('vary')).toMatch(/origin/i);
    }
  }
});

it('H3 nobody is allowed unless the setting says so', async () => {
  const plain = await startHost({ databaseUrl: await freshDatabase() });
  const answer = await fetch(`${plain.url}/api/sessions`, { headers: { origin: allowed } });
  expect([answer.status, corsOf(answer)]).toEqual([403, {}]);
  expect(await answer.text()).toContain('PERDURE_ALLOWED_ORIGINS');
});
