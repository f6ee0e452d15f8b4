import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { type Answer, eventsOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';

// Everything that only needs Postgres, tested while Temporal is down.

let host: TestHost;
let db: pg.Pool;
let ada: TestCaller;
let eve: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl });
  db = new pg.Pool({ connectionString: databaseUrl });
  ada = host.as('ada');
  eve = host.as('eve');
});
afterAll(() => db.end());

function codeOf({ status, body }: Answer): [status: number, code: unknown] {
  return [status, (body as { code?: unknown }).code];
}

interface Listed {
  items: { id: string; session: { session_id: string } }[];
  next: string | null;
}

async function openSession(caller = ada): Promise<string> {
  const { body } = await caller.post('/api/sessions', {});
  return body.session.session_id as string;
}

describe('sessions', () => {
  it('H2 open with the given options and return { session, chat, status }', async () => {
    const { status, body, headers } = await ada.post('/api/sessions', {
      agent: 'site-builder',
      project_id: 'garden',
      model: { provider_id: 'openai', model_id: 'test' },
      metadata: { colour: 'green\u0000' },
    });
    const { session, chat } = body;
    expect({ status, body }).toMatchObject({
      status: 201,
      body: {
        session: { user_id: 'ada', project_id: 'garden', phase: 'chatting', pending_tool: null, cancel_token: null },
        chat: { agent: 'site-builder', model: 'openai/test', metadata: { colour: 'green\uFFFD' }, total_tokens: 0 },
        status: { state: 'idle' },
      },
    });
    expect(Object.keys(session as object)).toHaveLength(7);
    expect(chat.session_id).toBe(session.session_id);
    expect(headers.get('location')).toBe(`/api/sessions/${session.session_id}`);
    expect((await ada.get(`/api/sessions/${session.session_id}`)).body).toEqual(body);
  });

  it('T8 are listed newest first, by project, agent and parent, in pages', async () => {
    const caller = host.as('lister');
    const ids: string[] = [];
    for (const project_id of ['one', 'two', 'one']) {
      const { body } = await caller.post('/api/sessions', { project_id });
      ids.unshift(body.session.session_id as string);
    }
    const listed = async (query: string) => {
      const { items, next } = (await caller.get(`/api/sessions${query}`)).body as Listed;
      return [items.map((item) => item.session.session_id), next];
    };
    expect(await listed('')).toEqual([ids, null]);
    expect(await listed('?project=one&agent=site-builder')).toEqual([[ids[0], ids[2]], null]);
    expect(await listed('?agent=other')).toEqual([[], null]);
    expect(await listed('?limit=2')).toEqual([ids.slice(0, 2), ids[1]]);
    expect(await listed(`?limit=2&after=${ids[1]}`)).toEqual([ids.slice(2), null]);
    expect(await listed('?limit=5000')).toEqual([ids, null]);
  });

  it('S10 another user’s project looks like an unknown one', async () => {
    await ada.post('/api/sessions', { project_id: 'adas-own' });
    const { status, body } = await eve.post('/api/sessions', { project_id: 'adas-own' });
    expect({ status, code: body.code }).toEqual({ status: 404, code: 'ProjectNotFound' });
  });

  it.each(['?limt=2', '/ID/messages?behind=m1', '/ID/log?from=3', '/ID?hidden=true', '/ID/status?after=2'])(
    'H2 an unknown query parameter is refused by name: %s',
    async (query) => {
      const { status, body } = await ada.get(`/api/sessions${query.replace('ID', await openSession())}`);
      const name = /\?(\w+)/.exec(query)?.[1];
      expect({ status, detail: body.detail }).toEqual({ status: 400, detail: `${name}: expected no such field` });
    },
  );

  it.each([
    [{ agent: 'nobody' }, 422, 'AgentNotConfigured', 'site-builder'],
    [{ model: 'openai/none' }, 422, 'ModelNotConfigured', 'openai/test, rehearsal/site-builder'],
    [{ model: 'none' }, 400, 'BadRequest', 'model: expected a model'],
    [{ workspace_root: '../elsewhere' }, 400, 'BadRequest', 'workspace_root: expected a folder below'],
    [{ workspace_root: '/etc' }, 400, 'BadRequest', 'workspace_root'],
    [{ metadata: { text: 'x'.repeat(20_000) } }, 413, 'TooLarge', 'metadata'],
    [{ metadata: [1] }, 400, 'BadRequest', 'metadata: expected an object'],
    [{ project_id: 'no spaces' }, 400, 'BadRequest', 'project_id: expected an id'],
    [{ surprise: 1 }, 400, 'BadRequest', 'surprise: expected no such field'],
  ])('H2 %j is refused with the problem named', async (body, status, code, words) => {
    const answer = await ada.post('/api/sessions', body);
    expect(answer).toMatchObject({ status, body: { code } });
    expect(answer.body.detail).toContain(words);
  });
});

describe('messages while Temporal is down', () => {
  it('W7 are accepted by their row and queued, with their position', async () => {
    const id = await openSession();
    const first = await ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text: 'Hello' });
    const second = await ada.post(`/api/sessions/${id}/messages`, { id: 'm2', text: 'again' });
    expect([first, second].map(({ status, body }) => ({ status, body }))).toEqual([
      { status: 202, body: { message_id: 'm1', position: 0 } },
      { status: 202, body: { message_id: 'm2', position: 1 } },
    ]);
    expect((await ada.get(`/api/sessions/${id}/status`)).body).toMatchObject({ state: 'busy', message_id: 'm1' });
  });

  it('S9 sent twice are stored once; with other content they are MessageConflict', async () => {
    const id = await openSession();
    const send = (text: string) => ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text });
    await send('Hello');
    expect((await send('Hello')).body).toEqual({ message_id: 'm1', position: 0 });
    expect(await send('Good bye')).toMatchObject({ status: 409, body: { code: 'MessageConflict' } });
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toHaveLength(1);
  });

  it('T3 keep the client’s id and their order', async () => {
    const id = await openSession();
    for (const mid of ['zz', 'aa', 'mm']) await ada.post(`/api/sessions/${id}/messages`, { id: mid, text: mid });
    const page = async (query: string) => {
      const { items, next } = (await ada.get(`/api/sessions/${id}/messages${query}`)).body as Listed;
      return [items.map((item) => item.id), next];
    };
    expect(await page('')).toEqual([['zz', 'aa', 'mm'], null]);
    expect(await page('?limit=2')).toEqual([['aa', 'mm'], 'aa']);
    expect(await page('?limit=2&before=aa')).toEqual([['zz'], null]);
    expect(await page('?limit=1&after=zz')).toEqual([['aa'], 'aa']);
    expect(await page('?after=aa')).toEqual([['mm'], null]);
    expect(await ada.get(`/api/sessions/${id}/messages?after=none`)).toMatchObject({
      status: 404,
      body: { code: 'MessageNotFound' },
    });
  });

  it('H8 have the session in their metadata, and no reserved metadata from the client', async () => {
    const id = await openSession();
    const metadata = { note: 'mine', usage: { input: 9 }, session_id: 'ses_other', hidden_by: {}, steps: [] };
    await ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text: 'a\u0000b\uD800', metadata });
    const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body;
    expect(items).toEqual([
      {
        id: 'm1',
        role: 'user',
        metadata: { note: 'mine', session_id: id },
        parts: [{ type: 'text', text: 'a\uFFFDb\uFFFD' }],
      },
    ]);
  });

  it.each([
    [{ id: 'no spaces', text: 'x' }, 400, 'id: expected an id'],
    [{ id: 'x'.repeat(65), text: 'x' }, 400, 'id: expected an id'],
    [{ id: 'm', text: 7 }, 400, 'text: expected a string'],
    [{ id: 'm', text: '' }, 400, 'text: expected a non-empty message'],
    [{ id: 'm' }, 400, 'text: expected either text or parts'],
    [{ id: 'm', parts: [{ type: 'text', text: 'a' }, { type: 'tool-x' }] }, 400, 'parts[1].type: expected a part'],
    [{ id: 'm', parts: [{ type: 'file', mediaType: 'image/png', url: 'file:///etc/passwd' }] }, 400, 'parts[0].url'],
    [{ id: 'm', text: 'x'.repeat(300_000) }, 413, 'PERDURE_MAX_MESSAGE'],
    [
      { id: 'm', text: 'x', model: { provider_id: 'openai', model_id: 'test', variant: 'high' } },
      400,
      'model.variant: expected nothing (not supported yet)',
    ],
    [
      { id: 'm', text: 'x', metadata: { model: { provider_id: 'a', model_id: 'b', variant: 'c' } } },
      400,
      'not supported yet',
    ],
    [{ id: 'm', text: 'x', model: 'openai/none' }, 422, 'openai/test, rehearsal/site-builder'],
    [{ id: 'm', text: 'x', metadata: { model: 'openai/none' } }, 422, 'openai/test'],
    ['{"id": "m", "text":', 400, 'body: expected JSON'],
    ['[1]', 400, 'body'],
    [`{"id":"m","text":"x","metadata":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`, 400, 'levels of nesting'],
    ['{"id":"m","text":"x","metadata":{"__proto__":{"a":1}}}', 400, '__proto__'],
    [{ id: 'm', text: 'x', metadata: { filler: 'x'.repeat(1_100_000) } }, 413, 'PERDURE_MAX_BODY'],
  ])('H2 an invalid message is refused with the field named (%#)', async (body, status, words) => {
    const id = await openSession();
    const answer = await ada.post(`/api/sessions/${id}/messages`, body);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.body.detail).toContain(words);
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toEqual([]);
  });

  it('Q3 a body without Content-Length is cut off at the limit too', async () => {
    const id = await openSession();
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(100_000).fill(0x20)),
    });
    const init = { method: 'POST', body: stream, duplex: 'half' } as RequestInit;
    const answer = await ada.fetch(`/api/sessions/${id}/messages`, init).then(
      (response) => response.status,
      () => 413,
    );
    expect(answer).toBe(413);
  });

  it('W7 beyond the limit of the queue are 429', async () => {
    const id = await openSession();
    const parts = JSON.stringify([{ id: 'p', type: 'text', data: { type: 'text', text: 'x' } }]);
    await db.query(
      `SELECT accept_message($1, 'ada', 'm' || n, 'a' || n, replace($2, '"p"', '"p' || n || '"')::jsonb, '{}', NULL, 1000)
         FROM generate_series(1, 100) n`,
      [id, parts],
    );
    const answer = await ada.post(`/api/sessions/${id}/messages`, { id: 'one-more', text: 'x' });
    expect(answer).toMatchObject({ status: 429, body: { code: 'TooMany' } });
  });
});

describe('commands while Temporal is down', () => {
  it('H2 are 503 Unavailable after 5 s, outcome unknown; W3 a reason was stored before the command was sent', async () => {
    const id = await openSession();
    const from = performance.now();
    const answer = await ada.post(`/api/sessions/${id}/cancel`, { reason: 'changed my mind' });
    expect(performance.now() - from).toBeLessThan(5_500);
    expect(answer).toMatchObject({ status: 503, body: { code: 'Unavailable', status: 503 } });
    expect(answer.body.detail).toContain('Idempotency-Key');
    const { items } = (await ada.get(`/api/sessions/${id}/log`)).body;
    expect(items).toMatchObject([
      { seq: 1, kind: 'opened' },
      { seq: 2, kind: 'reason', actor: 'user', data: { text: 'changed my mind' } },
    ]);
  });

  it('H2 that are not implemented are 501', async () => {
    const id = await openSession();
    for (const name of ['rewind', 'unrewind', 'branch', 'compact', 'prune', 'answer', 'archive']) {
      expect(await ada.post(`/api/sessions/${id}/${name}`, {})).toMatchObject({
        status: 501,
        body: { code: 'NotSupported' },
      });
    }
  });

  it.each([
    ['abort', { force: true }, 'force'],
    ['open', {}, 'project_id'],
    ['close', { abort: 'yes' }, 'abort: expected true or false'],
    ['cancel', { reason: 'x'.repeat(3_000) }, 'reason: expected at most 2000'],
  ])('H7 %s refuses an invalid body', async (name, body, words) => {
    const id = await openSession();
    const answer = await ada.post(`/api/sessions/${id}/${name}`, body);
    expect(answer.status).toBe(400);
    expect(answer.body.detail).toContain(words);
  });

  it('H7 an Idempotency-Key is refused by routes on which it would have no effect', async () => {
    const id = await openSession();
    const key = { 'idempotency-key': 'k1' };
    const detail = 'Idempotency-Key: expected none on this route';
    expect(await ada.post('/api/sessions', {}, key)).toMatchObject({ status: 400, body: { detail } });
    const message = { id: 'm1', text: 'Hello' };
    const sent = await ada.post(`/api/sessions/${id}/messages`, message, key);
    expect(sent).toMatchObject({ status: 400, body: { detail } });
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toEqual([]);
  });

  it('H7 an Idempotency-Key has the form of an id', async () => {
    const id = await openSession();
    const answer = await ada.post(`/api/sessions/${id}/abort`, {}, { 'idempotency-key': 'not an id' });
    expect(answer).toMatchObject({ status: 400, body: { code: 'BadRequest' } });
  });
});

describe('a session belongs to its user', () => {
  const routes: [method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown][] = [
    ['GET', ''],
    ['GET', '/messages'],
    ['POST', '/messages', { id: 'm', text: 'x' }],
    ['DELETE', '/messages/m1'],
    ['GET', '/status'],
    ['GET', '/events'],
    ['GET', '/log'],
    ['GET', '/tool-outputs/call_1'],
    ['POST', '/open', { project_id: 'p' }],
    ...['abort', 'cancel', 'publish', 'revert', 'close'].map((name): [method: 'POST', path: string, body: unknown] => [
      'POST',
      `/${name}`,
      {},
    ]),
    ...['rewind', 'branch', 'archive'].map((name): [method: 'POST', path: string] => ['POST', `/${name}`]),
  ];

  it.each(routes)(
    'Q3 %s …%s is the same 404 for another user’s session and for an unknown one',
    async (method, path, body) => {
      const mine = await openSession();
      await ada.post(`/api/sessions/${mine}/messages`, { id: 'm1', text: 'secret' });
      const answers = await Promise.all(
        [mine, 'ses_0123456789abXXXXXXXXXXXXXX', 'no-such-alias', 'nul%00'].map(async (id) => {
          const init = { method, ...(body !== undefined && { body: JSON.stringify(body) }) };
          const response = await eve.fetch(`/api/sessions/${id}${path}`, init);
          return { status: response.status, text: await response.text() };
        }),
      );
      expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toHaveLength(1);
      expect(answers[0]).toMatchObject({ status: 404 });
      expect(JSON.parse(answers[0]!.text)).toMatchObject({ code: 'SessionNotFound', title: 'Session Not Found' });
    },
  );

  it('H8 in /chat, its stream and /cancel too', async () => {
    const mine = await openSession();
    await ada.post(`/api/sessions/${mine}/messages`, { id: 'm1', text: 'secret' });
    const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'secret' }] };
    const answers = [
      await eve.post('/api/chat', { id: mine, messages: [message] }),
      await eve.post('/api/chat', { id: mine, messages: [message], messageId: 'm1' }),
      await eve.get(`/api/chat/${mine}/stream`),
      await eve.post(`/api/cancel?session_id=${mine}`),
    ];
    expect(answers.map(codeOf)).toEqual(Array.from({ length: 4 }, () => [404, 'SessionNotFound']));
  });
});

describe('/chat while Temporal is down', () => {
  const chat = (id: string, text: string, more: object = {}) => ({
    id,
    messages: [{ id: `m-${text}`, role: 'user', parts: [{ type: 'text', text }] }],
    trigger: 'submit-message',
    ...more,
  });

  async function firstChunks(response: Response, count: number): Promise<unknown[]> {
    const chunks: unknown[] = [];
    for await (const { data } of eventsOf(response)) if (chunks.push(data) === count) break;
    return chunks;
  }

  it('H8 opens a session at the first use of an alias, which addresses that session from then on', async () => {
    const response = await ada.fetch('/api/chat', { method: 'POST', body: JSON.stringify(chat('my chat', 'one')) });
    const session = response.headers.get('x-perdure-session')!;
    expect(session).toMatch(/^ses_/);
    expect(response.headers.get('x-vercel-ai-ui-message-stream')).toBe('v1');
    const [start] = await firstChunks(response, 1);
    expect(start).toMatchObject({ type: 'start', messageMetadata: { session_id: session } });
    expect((await ada.get('/api/sessions/my%20chat')).body.session.session_id).toBe(session);
    expect((await eve.get('/api/sessions/my%20chat')).status).toBe(404);
    expect((await ada.get('/api/sessions/my%20chat/messages')).body.items).toHaveLength(1);
  });

  it('H8 reports a message’s place in the queue in a transient part', async () => {
    const body = (text: string) => ({ method: 'POST', body: JSON.stringify(chat('queue', text)) });
    await firstChunks(await ada.fetch('/api/chat', body('one')), 1);
    const chunks = await firstChunks(await ada.fetch('/api/chat', body('two')), 2);
    expect(chunks[1]).toMatchObject({
      type: 'data-status',
      transient: true,
      data: { state: 'busy', message_id: 'm-one', position: 1 },
    });
  });

  it('H8 two concurrent first uses of an alias open one session', async () => {
    const responses = await Promise.all(
      ['a', 'b', 'c', 'd'].map((text) =>
        ada.fetch('/api/chat', { method: 'POST', body: JSON.stringify(chat('at-once', text)) }),
      ),
    );
    expect(new Set(responses.map((response) => response.headers.get('x-perdure-session')))).toHaveLength(1);
    for (const response of responses) await response.body?.cancel();
  });

  it('H8 GET …/stream is 204 for an idle session and for an unused alias', async () => {
    const id = await openSession();
    expect((await ada.get(`/api/chat/${id}/stream`)).status).toBe(204);
    expect((await ada.get('/api/chat/never-used/stream')).status).toBe(204);
  });

  it.each([
    ['the id of an unknown session', 'ses_01a1f3700540MV0Zsir5WBfRzB'],
    ['an id that is too long for an alias', '0'.repeat(129)],
    ['an alias with a newline', 'a%0Ab'],
  ])('H8 GET …/stream is 404 for %s', async (_what, id) => {
    expect((await ada.get(`/api/chat/${id}/stream`)).status).toBe(404);
  });

  it.each([
    ['no id', { id: undefined }, 'id: expected the chat'],
    ['an id with a newline', { id: 'a\nb' }, 'id: expected the chat'],
    ['no messages', { messages: [] }, 'messages: expected at least one message'],
    ['messages that are not an array', { messages: 'x' }, 'messages: expected an array of messages'],
    [
      'a last message that is not an object',
      { messages: Array.from({ length: 10_000 }, () => 1) },
      'messages[9999]: expected an',
    ],
    ['a last message without parts', { messages: [1, { id: 'm', role: 'user' }] }, 'messages[1].parts'],
    ['a system message', { messages: [{ id: 'm', role: 'system', parts: [] }] }, 'messages[0].role'],
    ['an unknown trigger', { trigger: 'push' }, 'trigger: expected'],
    ['an unknown model', { model: 'openai/none' }, 'openai/test, rehearsal/site-builder'],
  ])('H8 %s is refused with the field named', async (_what, more, words) => {
    const answer = await ada.post('/api/chat', chat('bad', 'x', more));
    expect([400, 422]).toContain(answer.status);
    expect(answer.body.detail).toContain(words);
  });

  it('H8 editing, regenerating and answering approvals are 501, and change nothing', async () => {
    await (await ada.fetch('/api/chat', { method: 'POST', body: JSON.stringify(chat('edits', 'one')) })).body?.cancel();
    const answers = [
      await ada.post('/api/chat', chat('edits', 'other', { messageId: 'm-one' })),
      await ada.post('/api/chat', chat('edits', 'other', { trigger: 'regenerate-message' })),
      await ada.post('/api/chat', { id: 'edits', messages: [{ id: 'a', role: 'assistant', parts: [] }] }),
    ];
    expect(answers.map(codeOf)).toEqual(Array.from({ length: 3 }, () => [501, 'NotSupported']));
    expect((await ada.get('/api/sessions/edits/messages')).body.items).toHaveLength(1);
  });
});

describe('outside the API', () => {
  it('H2 /healthz is 200, /readyz is 503 while Temporal is down, /metrics counts refusals', async () => {
    await ada.post('/api/sessions', { agent: 'nobody' });
    expect((await ada.get('/healthz')).body).toEqual({ ok: true });
    expect(await ada.get('/readyz')).toMatchObject({
      status: 503,
      body: { ready: false, postgres: true, temporal: false },
    });
    const { body } = await ada.get('/metrics');
    expect(body).toMatch(/perdure_refused_total\{command="open",code="AgentNotConfigured"\} [1-9]/);
  });

  it('H2 an unknown route gets problem details too', async () => {
    expect(await ada.get('/api/nothing')).toMatchObject({ status: 404, body: { code: 'NotFound' } });
    expect(await ada.get('/nothing')).toMatchObject({ status: 404, body: { code: 'NotFound' } });
  });
});

describe('events', () => {
  it('R5 begin with the status and report a change at once', async () => {
    const id = await openSession();
    const events = eventsOf(await ada.fetch(`/api/sessions/${id}/events`));
    expect((await events.next()).value).toEqual({ event: 'status', data: { state: 'idle' } });
    const from = performance.now();
    await ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text: 'x' });
    expect((await events.next()).value).toMatchObject({ event: 'status', data: { state: 'busy', message_id: 'm1' } });
    expect(performance.now() - from).toBeLessThan(500);
    await events.return(undefined);
  });
});
