// Texts that careless code misinterprets: SQL, NUL characters, lone surrogates, names of prototypes.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { plainName } from '../../domain/attachments.ts';
import { newId } from '../../domain/ids.ts';
import { chunksOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { requestTo, type Route, routesOf, comparable, textsIn } from './routes.ts';
import { allRows } from './rows.ts';

const SLEEP_S = 10;
/** Texts that are SQL if pasted into a statement, or break code that supports only a part of Unicode. */
const TEXTS = [
  `'; DROP TABLE sessions CASCADE; --`,
  `" OR ""="`,
  `ses_x' OR '1'='1`,
  `1); UPDATE sessions SET user_id = 'eve'; --`,
  `'||(SELECT pg_sleep(${SLEEP_S}))||'`,
  `$1 $2::text $$ \\' \\"`,
  `{"$ne": null}`,
  `%_\\%`,
  `ses\\_%`,
  'nul \u0000 inside',
  'half \uD800 of a character',
  'long '.repeat(2_000),
];
/** The stored form of a text: jsonb accepts neither U+0000 nor lone surrogates. */
const stored = (text: string) => text.toWellFormed().replaceAll('\0', '\uFFFD');

let host: TestHost;
let db: pg.Pool;
let eve: TestCaller;
let routes: Route[];
let bystanders: Record<string, string>;
let session: string;

beforeAll(async () => {
  const runtime = await startRuntime({
    script: (request) => {
      const isFirst = request.messages.at(-1)?.role === 'user';
      const input =
        '{"path":"a.txt","content":"x","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}';
      return isFirst && lastUserText(request) === 'pollute' ? [callTool('c1', 'write_file', input)] : [say('Fine.')];
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
  db = runtime.db;
  eve = host.as('eve');
  routes = await routesOf(host.url);
  await host.as('ada').post('/api/sessions', { project_id: 'adas', metadata: { of: 'ada' } });
  bystanders = await rowsOf('ada');
  session = (await eve.post('/api/sessions', {})).body.session.session_id as string;
});

/** The rows of every table that belong to a user or to one of the user's sessions. */
async function rowsOf(user: string): Promise<Record<string, string>> {
  const { rows } = await db.query<{ session_id: string }>('SELECT session_id FROM sessions WHERE user_id = $1', [user]);
  // As whole words: a random id may contain the user's name.
  const names = [user, ...rows.map((row) => row.session_id)].map((name) => new RegExp(`\\b${name}\\b`));
  const all = Object.entries(await allRows(db));
  return Object.fromEntries(
    all.map(([table, text]) => [
      table,
      text
        .split('\n')
        .filter((row) => names.some((name) => name.test(row)))
        .join('\n'),
    ]),
  );
}

/** Expects a response below 500 (or 501); Postgres cancels a statement that executes the `pg_sleep` of the injected SQL. */
async function expectWell(what: string, path: string, init: RequestInit): Promise<void> {
  const response = await eve.fetch(path, init);
  const answer = await comparable(response);
  expect(answer.status === 501 ? 200 : answer.status, `${what}: ${answer.text}`).toBeLessThan(500);
}

/** A value for each path parameter. */
const own = () => ({
  id: session,
  message_id: 'm1',
  tool_call_id: 'call_1',
  token: 't',
  file: 'f',
  digest: 'd',
  attachment_id: 'att_x',
});

async function expectUnharmed(): Promise<void> {
  expect(await rowsOf('ada')).toEqual(bystanders);
  expect(await host.as('ada').get('/api/sessions')).toMatchObject({ status: 200, body: { items: [{}] } });
}

describe('SQL in a text', () => {
  it('Q3 is not executed from any path or query', async () => {
    for (const route of routes.filter((each) => each.params.length + each.query.length > 0)) {
      const texts = TEXTS.map((text) => text.slice(0, 3_000).toWellFormed());
      const inPaths = route.params.flatMap((name) =>
        texts.map((text) => requestTo(route, { params: { ...own(), [name]: text } })),
      );
      const inQueries = route.query.flatMap((name) =>
        texts.map((text) => requestTo(route, { params: own(), query: { [name]: text } })),
      );
      const raw = ['%00', '%ED%A0%80', '%C0%AF', '%FF%FE', '%', '%2e%2e%2f', '%5c..%5c'].flatMap((text) =>
        route.params.map((name) => {
          const { path, init } = requestTo(route, { params: { ...own(), [name]: 'PLACE' } });
          return { path: path.replace('PLACE', text), init };
        }),
      );
      // Commands of one session wait for each other; other requests run concurrently.
      await Promise.all([...inPaths, ...inQueries, ...raw].map(({ path, init }) => expectWell(route.name, path, init)));
    }
    await expectUnharmed();
  });

  it('Q3 is not executed from any field of any body', async () => {
    let fields = 0;
    for (const route of routes.filter((each) => each.body !== undefined)) {
      for (const field of textsIn(route.body)) {
        fields += 1;
        const sent = TEXTS.map((text) => requestTo(route, { params: own(), body: field.replaced(text) }));
        await Promise.all(sent.map(({ path, init }) => expectWell(`${route.name} ${field.path}`, path, init)));
      }
    }
    expect(fields).toBeGreaterThan(8);
    await expectUnharmed();
  });

  it('Q3 is not executed from any header', async () => {
    const latin = TEXTS.map((text) =>
      text
        .slice(0, 500)
        .replaceAll(/[^ -~]/g, '?')
        .trim(),
    );
    const named = routes.filter((route) => route.idempotent).slice(0, 2);
    for (const route of [...named, routes.find((each) => each.operationId === 'listSessions')!]) {
      for (const name of ['idempotency-key', 'x-perdure-user', 'cookie', 'authorization', 'origin', 'if-none-match']) {
        const sent = latin.map((text) => {
          const { path, init } = requestTo(route, { params: own() });
          const value = name === 'cookie' ? `perdure_user=${text}.AAAA` : text;
          return expectWell(`${route.name} ${name}`, path, { ...init, headers: { ...init.headers, [name]: value } });
        });
        await Promise.all(sent);
      }
    }
    await expectUnharmed();
  });

  it('Q3 is stored unchanged in messages, metadata, file names, reasons and aliases', async () => {
    const id = (await eve.post('/api/sessions', { metadata: { texts: TEXTS, [TEXTS[0]!]: TEXTS[5] } })).body.session
      .session_id as string;
    const { chat } = await host.client.reads.session('eve', id);
    expect(chat.metadata).toEqual({ texts: TEXTS.map(stored), [TEXTS[0]!]: TEXTS[5] });
    for (const [at, text] of TEXTS.entries()) {
      const file = {
        type: 'file',
        mediaType: 'text/plain',
        filename: text.slice(0, 200),
        url: 'data:text/plain;base64,eA==',
      };
      const body = { id: `m${at}`, parts: [{ type: 'text', text }, file], metadata: { [text]: text } };
      expect((await eve.post(`/api/sessions/${id}/messages`, body)).status).toBe(202);
    }
    const { items } = await host.client.reads.messages('eve', id, { limit: 200 });
    const users = items.filter((item) => item.role === 'user');
    for (const [at, text] of TEXTS.entries()) {
      expect(users[at]).toMatchObject({
        metadata: { [stored(text)]: stored(text) },
        parts: [{ text: stored(text) }, { filename: stored(plainName(text.slice(0, 200))) }],
      });
    }
    await eve.post(`/api/sessions/${id}/cancel`, { reason: TEXTS[0] });
    const log = await host.client.reads.log('eve', id, { limit: 200 });
    expect(log.items.find((item) => item.kind === 'reason')?.data).toEqual({ text: TEXTS[0] });
    for (const alias of TEXTS.filter((text) => text === stored(text) && text.length < 100)) {
      const message = { id: newId('msg'), role: 'user', parts: [{ type: 'text', text: 'hi' }] };
      const chatted = await eve.fetch('/api/chat', {
        method: 'POST',
        body: JSON.stringify({ id: alias, messages: [message] }),
      });
      const named = chatted.headers.get('x-perdure-session');
      await chatted.body?.cancel();
      const found = await eve.get(`/api/sessions/${encodeURIComponent(alias)}`);
      expect(found.body.session?.session_id ?? found.body.code).toBe(named ?? 'SessionNotFound');
    }
    await expectUnharmed();
  });
});

describe('a hostile body', () => {
  const POLLUTIONS = [
    '{"__proto__":{"polluted":1}}',
    '{"constructor":{"prototype":{"polluted":1}}}',
    '{"prototype":{"polluted":1},"toString":"x","hasOwnProperty":1,"valueOf":null}',
  ];

  it('Q3 changes no prototype, whichever object of whichever body names one', async () => {
    for (const route of routes.filter((each) => each.method !== 'GET')) {
      const json = JSON.stringify(route.body ?? {});
      for (const pollution of POLLUTIONS) {
        const members = pollution.slice(1, -1);
        // In every object of the body, and as metadata.
        const everywhere = json.replaceAll('{', `{${members},`).replaceAll(',}', '}');
        const inMetadata = json.replace(/\}$/, `${json === '{}' ? '' : ','}"metadata":${pollution}}`);
        for (const body of [pollution, everywhere, inMetadata]) {
          const { path, init } = requestTo(route, { params: own(), body });
          await expectWell(route.name, path, init);
        }
      }
    }
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it('Q3 may have a key such as `constructor`; `__proto__` is refused', async () => {
    const metadata = JSON.parse(POLLUTIONS[2]!) as object;
    const kept = await eve.post('/api/sessions', { metadata: { ...metadata, constructor: 'mine' } });
    expect(kept.body.chat.metadata).toEqual({ ...metadata, constructor: 'mine' });
    const refused = await eve.post('/api/sessions', `{"metadata":{"deep":[{"__proto__":{"a":1}}]}}`);
    expect(refused).toMatchObject({ status: 400, body: { detail: expect.stringContaining('__proto__') } });
  });

  it('Q3 changes no prototype if a model sends it as a tool’s input', async () => {
    const message = { id: newId('msg'), role: 'user', parts: [{ type: 'text', text: 'pollute' }] };
    const body = JSON.stringify({ id: 'pollution', messages: [message] });
    await chunksOf(await eve.fetch('/api/chat', { method: 'POST', body }));
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect((await eve.get('/api/sessions/pollution/status')).body.state).toBe('idle');
  });

  it('Q3 with two members of one name: the last one is validated and stored', async () => {
    const { status, body } = await eve.post('/api/sessions', '{"project_id":"../x","project_id":"last"}');
    expect([status, body.session.project_id]).toEqual([201, 'last']);
    expect((await eve.post('/api/sessions', '{"project_id":"last","project_id":"../x"}')).status).toBe(400);
  });

  it('Q3 must be text: invalid UTF-8 and compressed bytes are refused', async () => {
    const send = (bytes: Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
      eve.fetch('/api/sessions', { method: 'POST', body: bytes, headers });
    const invalid = Buffer.concat([
      Buffer.from('{"metadata":{"a":"'),
      Buffer.from([0xff, 0xc0, 0xaf]),
      Buffer.from('"}}'),
    ]);
    const refused = await send(new Uint8Array(invalid));
    expect([refused.status, await refused.json()]).toMatchObject([400, { detail: 'body: expected text in UTF-8' }]);
    for (const coding of ['gzip', 'deflate', 'br', 'zstd', 'gzip, gzip', 'x']) {
      const bomb = await send(new Uint8Array(10), { 'content-encoding': coding });
      expect([bomb.status, await bomb.json()], coding).toMatchObject([
        400,
        { detail: 'Content-Encoding: expected none (an uncompressed body)' },
      ]);
    }
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'image/png', ''])(
    'Q3 with content type "%s" is parsed as JSON or refused',
    async (type) => {
      const send = (body: string) =>
        eve.fetch('/api/sessions', { method: 'POST', body, headers: { 'content-type': type } });
      expect((await send('project_id=x')).status).toBe(400);
      expect((await send('--x\r\ncontent-disposition: form-data; name="project_id"\r\n\r\nx\r\n--x--')).status).toBe(
        400,
      );
      expect((await send('{}')).status).toBe(201);
    },
  );

  it('Q3 may be deep or wide', async () => {
    const deep = ['['.repeat(500_000), '{"a":'.repeat(150_000), `${'['.repeat(250_000)}${']'.repeat(250_000)}`];
    for (const body of deep) expect((await eve.post('/api/sessions', body)).status).toBe(400);
    const names = Array.from({ length: 80_000 }, (_, at) => `"n${at}":1`).join(',');
    expect((await eve.post('/api/sessions', `{"metadata":{${names}}}`)).status).toBe(413);
    expect((await eve.post('/api/sessions', `{${names}}`)).status).toBe(400);
    const url = `data:image/png;base64,${'A'.repeat(900_001)}!`;
    const parts = [{ type: 'file', mediaType: 'image/png', url }];
    expect((await eve.post(`/api/sessions/${session}/messages`, { parts })).status).toBe(400);
  });
});
