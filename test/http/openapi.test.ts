import { request } from 'node:http';
import { Validator } from '@seriousme/openapi-schema-validator';
import { beforeAll, describe, expect, it } from 'vitest';
import { templateOf } from '../../host/api/api.ts';
import { tokenUser } from '../../host/index.ts';
import type { OpenApi } from '../../tools/test-kit/described.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { requestTo, routesOf } from '../attacks/routes.ts';

let host: TestHost;
let guarded: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl });
  const identify = tokenUser({ secret: 'a secret of at least thirty-two bytes' });
  guarded = await startHost({ databaseUrl, parts: { identify } });
  ada = host.as('ada');
});

async function openSession(): Promise<string> {
  return (await ada.post('/api/sessions', {})).body.session.session_id as string;
}

/** The status of a request with this Host header. */
function statusFor(path: string, hostHeader: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const sent = request(`${host.url}${path}`, { headers: { host: hostHeader } }, (answer) => {
    answer.resume();
    resolve(answer.statusCode);
  });
  sent.on('error', reject);
  sent.end();
  return promise;
}

describe('GET /openapi.json', () => {
  it('H2 is a valid OpenAPI 3.1 document, the same under /api, and needs no authentication', async () => {
    const { body, headers } = await ada.get('/openapi.json');
    expect(headers.get('content-type')).toContain('application/json');
    expect(body.openapi).toMatch(/^3\.1\./);
    expect(await new Validator().validate(structuredClone(body) as Record<string, unknown>)).toEqual({ valid: true });
    for (const path of ['/openapi.json', '/api/openapi.json']) {
      expect(await (await fetch(`${guarded.url}${path}`)).json()).toEqual(body);
    }
  });

  it('H2 describes exactly the routes that exist', async () => {
    const { paths } = (await ada.get('/openapi.json')).body as OpenApi;
    const described = Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const there = host.routes.map(({ method, path }) => `${method} ${templateOf(path)}`);
    expect(described.toSorted()).toEqual(there.toSorted());
    expect(there.length).toBeGreaterThan(25);
    const names = Object.values(paths).flatMap((operations) =>
      Object.values(operations).map((each) => each.operationId),
    );
    expect(new Set(names)).toHaveLength(names.length);
  });

  it('H2 contains the limits that requests are validated against', async () => {
    const { paths, components } = (await ada.get('/openapi.json')).body;
    const submit = paths['/api/sessions/{id}/messages'].post;
    expect(submit.requestBody.content['application/json'].schema).toMatchObject({
      additionalProperties: false,
      properties: { id: { pattern: '^[A-Za-z0-9_-]{1,64}$' }, parts: { maxItems: 100 } },
      oneOf: [{ required: ['text'] }, { required: ['parts'] }],
    });
    expect(submit.parameters[0]).toMatchObject({ in: 'path', name: 'id', schema: { minLength: 1, maxLength: 128 } });
    const parameters = paths['/api/sessions'].get.parameters as { name: string }[];
    expect(parameters.find((each) => each.name === 'limit')).toMatchObject({
      in: 'query',
      schema: { type: 'integer', minimum: 1, default: 50 },
    });
    expect(Object.keys(components.securitySchemes as object)).toEqual(['bearer', 'user', 'cookie']);
  });
});

describe('invalid requests', () => {
  it.each(['PUT', 'PATCH', 'OPTIONS', 'DELETE'])(
    'H2 %s on a route without that method is 405 with Allow',
    async (method) => {
      const answer = await ada.fetch('/api/sessions', { method });
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toBe('POST, GET, HEAD');
      expect(await answer.json()).toMatchObject({ code: 'MethodNotAllowed', status: 405 });
      expect((await ada.fetch('/healthz', { method })).status).toBe(405);
    },
  );

  it('H3 401 has WWW-Authenticate, H2 503 has Retry-After', async () => {
    const refused = await fetch(`${guarded.url}/api/sessions`);
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const away = await ada.post(`/api/sessions/${await openSession()}/abort`);
    expect([away.status, away.headers.get('retry-after')]).toEqual([503, '1']);
  });

  it.each([
    [
      {
        parts: [
          { type: 'text', text: 'a' },
          { type: 'file', mediaType: 'image/png', url: 'http://x/' },
        ],
      },
      'parts[1].url: expected the URL of an attachment, or a data: URL in base64',
    ],
    [{ parts: [{ type: 'text' }] }, 'parts[0].text: expected a string'],
    [{ parts: [7] }, 'parts[0]: expected a part of type text or file'],
    [{ id: 'no spaces', parts: [] }, 'id: expected an id of 1 to 64'],
    [{ parts: [] }, 'parts: expected a non-empty message'],
    [{ parts: [{ type: 'text', text: 'a' }], metadata: { model: 7 } }, 'metadata.model: expected a model'],
    [{ parts: [{ type: 'text', text: 'a' }], metadata: 7 }, 'metadata: expected an object'],
    [{ role: 'system', parts: [] }, 'role: expected "user"'],
    [
      { parts: [{ type: 'text', text: 'a' }], metadata: { filler: 'x'.repeat(300_000) } },
      'metadata: expected a message of at most 262144 bytes',
    ],
    [{ parts: [{ type: 'text', text: 'x'.repeat(300_000) }] }, 'parts: expected a message of at most 262144 bytes'],
  ])(
    'H2 an invalid field of a message is named by its path in the body, with what was expected (%#)',
    async (message, words) => {
      const { body } = await ada.post('/api/chat', { id: 'bad', messages: [0, { id: 'm', role: 'user', ...message }] });
      expect(body.detail).toContain(`messages[1].${words}`);
      expect(body.errors[0]).toEqual({
        field: (body.detail as string).split(': expected ')[0],
        expected: expect.any(String),
      });
    },
  );

  it.each([
    ['/api/sessions', 'limit=0', 'limit: expected a number of at least 1'],
    ['/api/sessions', 'limit=ten', 'limit: expected a whole number'],
    ['/api/sessions', 'archived=1', 'archived: expected true or false'],
    ['/api/sessions', 'project=%00', 'project: expected 1 to 128 characters'],
    ['/api/sessions', 'limit=1&limit=2', 'limit: expected'],
  ])('H7 %s?%s is refused with the parameter named', async (path, query, words) => {
    const { status, body } = await ada.get(`${path}?${query}`);
    expect([status, body.detail]).toEqual([400, expect.stringContaining(words)]);
  });

  it('H7 every authenticated route refuses an unknown query parameter', async () => {
    const routes = (await routesOf(host.url)).filter(({ open }) => !open);
    expect(routes.length).toBeGreaterThan(20);
    for (const route of routes) {
      const params = Object.fromEntries(route.params.map((name) => [name, 'x']));
      const query = Object.fromEntries([...route.query, 'unknown'].map((name) => [name, '1']));
      const { path, init } = requestTo(route, { params, query });
      const response = await ada.fetch(path, init);
      const { errors } = (await response.json()) as { errors?: object[] };
      expect([route.name, response.status, errors]).toEqual([
        route.name,
        400,
        expect.arrayContaining([{ field: 'unknown', expected: 'no such field' }]),
      ]);
    }
  });

  it('S9 metadata and model are not compared: the same id and parts are the same message', async () => {
    const id = await openSession();
    const send = (more: object) => ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text: 'Hello', ...more });
    const first = await send({ metadata: { at: 1 } });
    expect((await send({ metadata: { at: 2 }, model: 'openai/test' })).body).toEqual(first.body);
    const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body;
    expect(items).toMatchObject([{ id: 'm1', metadata: { at: 1 } }]);
  });
});

describe('a loopback host', () => {
  it('H3 refuses foreign host names, and allows probes by IP address', async () => {
    for (const path of ['/metrics', '/healthz', '/openapi.json', '/api/sessions', '/nothing']) {
      expect(await statusFor(path, 'evil.example'), path).toBe(403);
    }
    expect(await statusFor('/metrics', 'localhost:8787')).toBe(200);
    expect(await statusFor('/metrics', '10.1.2.3:8787')).toBe(200);
    expect(await statusFor('/healthz', '[fd00::1]')).toBe(200);
    expect(await statusFor('/api/sessions', '10.1.2.3:8787')).toBe(403);
  });
});
