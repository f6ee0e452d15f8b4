import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { type Answer, eventsOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { expectLeastOfThree } from '../../tools/test-kit/least-of-three.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { withoutFunction } from '../../tools/test-kit/without-function.ts';

const PNG = { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=' };

// Everything that only needs Postgres, tested while Temporal is down.

let host: TestHost;
let db: pg.Pool;
let ada: TestCaller;
let eve: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl, agents: ['site-builder', 'secretary'] });
  db = patientPool(databaseUrl);
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

  it('H7 are listed by their ids, without those of others, side chats and unknown ones', async () => {
    const [one, two] = [await openSession(), await openSession()];
    const aside = await ada.post('/api/sessions', { metadata: { ephemeral: true } });
    const ids = [one, two, aside.body.session.session_id, await openSession(eve), 'ses_none'];
    const { items } = (await ada.get(`/api/sessions?ids=${ids.join(',')}`)).body as Listed;
    expect(items.map(({ session }) => session.session_id)).toEqual([two, one]);
    for (const wrong of ['', 'a,,b', 'a b', Array.from({ length: 201 }, () => 'a').join(',')]) {
      const { status, body } = await ada.get(`/api/sessions?ids=${encodeURIComponent(wrong)}`);
      expect([wrong, status, body.errors[0].field]).toEqual([wrong, 400, 'ids']);
    }
  });

  it('S4 the agents to choose from are listed, and whether they use phases', async () => {
    expect((await ada.get('/api/agents')).body).toEqual({
      default: 'site-builder',
      items: [
        { id: 'site-builder', description: null, uses_phases: true },
        { id: 'secretary', description: null, uses_phases: true },
      ],
    });
  });

  it('S10 the todos of a session are those of its project, for its owner', async () => {
    const opened = await ada.post('/api/sessions', { project_id: 'allotment' });
    const id = opened.body.session.session_id as string;
    await db.query(
      `INSERT INTO project_todos (project_id, name, created_at, done_at)
       VALUES ('allotment', 'sow', '2026-01-03', NULL), ('allotment', 'dig', '2026-01-01', '2026-01-02')`,
    );
    expect((await ada.get(`/api/sessions/${id}/todos`)).body).toEqual({
      items: [
        { name: 'dig', done: true },
        { name: 'sow', done: false },
      ],
    });
    expect((await ada.get(`/api/sessions/${await openSession()}/todos`)).body).toEqual({ items: [] });
    expect(codeOf(await eve.get(`/api/sessions/${id}/todos`))).toEqual([404, 'SessionNotFound']);
  });

  it('X10 the models to choose from are listed with limits and variants, and with the default of each agent', async () => {
    const { status, body } = await ada.get('/api/models');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      default: 'openai/test',
      agents: { 'site-builder': 'openai/test', secretary: 'openai/test' },
      items: [
        { model: 'openai/test', context_limit: 128_000, max_input: 128_000, max_output: 8_192, variants: ['high'] },
        { model: 'rehearsal/site-builder', tier: null, modalities: null },
        { model: 'openai/plain', modalities: ['text', 'pdf'], variants: [] },
        { model: 'openai/sees', modalities: ['text', 'image'] },
      ],
    });
  });

  it('T8 are listed newest first, by project and agent, in pages', async () => {
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

  it('T8 pages lose and repeat nothing while sessions arrive, and the last one seen is erased or archived, also those of a parent', async () => {
    const caller = host.as('pager');
    const parent = await openSession(caller);
    const child = async () => {
      const id = await openSession(caller);
      await db.query('UPDATE chat_sessions SET parent_id = $2, depth = 1 WHERE session_id = $1', [id, parent]);
      return id;
    };
    for (const [query, open] of [
      ['', () => openSession(caller)],
      [`parent=${parent}&`, child],
    ] as const) {
      const there: string[] = query === '' ? [parent] : [];
      for (let n = there.length; n < 7; n += 1) there.unshift(await open());
      const seen: string[] = [];
      for (let after: string | null = ''; after !== null;) {
        const page: Listed = (await caller.get(`/api/sessions?${query}limit=2${after && `&after=${after}`}`))
          .body as Listed;
        seen.push(...page.items.map((item) => item.session.session_id));
        after = page.next;
        await open();
        if (seen.length === 2) expect((await caller.delete(`/api/sessions/${after}`)).status).toBe(204);
        if (seen.length === 4)
          await db.query('UPDATE chat_sessions SET archived_at = now() WHERE session_id = $1', [after]);
      }
      expect(seen).toEqual(there);
    }
  });

  it('T8 archived ones are listed only on request', async () => {
    const dora = host.as('dora');
    const [archived, plain] = [await openSession(dora), await openSession(dora)];
    await db.query('UPDATE chat_sessions SET archived_at = now() WHERE session_id = $1', [archived]);
    const idsOf = async (query: string) => {
      const { items } = (await dora.get(`/api/sessions?${query}`)).body as Listed;
      return items.map((item) => item.session.session_id);
    };
    expect(await idsOf('')).toEqual([plain]);
    expect(await idsOf('archived=false')).toEqual([plain]);
    expect(await idsOf('archived=true')).toEqual([plain, archived]);
  });

  it('T8 have the title that their user gives them, until it is taken away', async () => {
    const session = await openSession();
    const rename = async (caller: TestCaller, title: unknown) =>
      caller.post(`/api/sessions/${session}/rename`, { title });
    expect((await rename(ada, '  A garden\u0000 ')).body.chat.metadata).toEqual({ title: 'A garden\uFFFD' });
    expect((await ada.get(`/api/sessions/${session}`)).body.chat.metadata).toEqual({ title: 'A garden\uFFFD' });
    expect((await rename(ada, null)).body.chat.metadata).toEqual({});
    for (const title of ['', ' ', 7, 'x'.repeat(201), undefined]) {
      const { status, body } = await rename(ada, title);
      expect([status, body.detail]).toEqual([400, 'title: expected a title of 1 to 200 characters, or null']);
    }
    expect(codeOf(await rename(eve, 'Mine'))).toEqual([404, 'SessionNotFound']);
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
    [{ model: 'openai/none' }, 422, 'ModelNotConfigured', 'model: expected a configured model (openai/test, '],
    [
      { model: { provider_id: 'openai', model_id: 'test', variant: 'high' } },
      400,
      'BadRequest',
      'model.variant: expected',
    ],
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

  it('H8 X2 have the session in their metadata, and no reserved metadata from the client', async () => {
    const id = await openSession();
    const reserved = {
      ...{ usage: { input: 9 }, steps: [], discarded: [], hidden_by: {}, snapshot_id: 's' },
      system_prompt_digest: 'd',
    };
    const metadata = { note: 'mine', ...reserved, turn: {}, session_id: 'ses_other' };
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
      { id: 'm', text: 'x', model: { provider_id: 'openai', model_id: 'test', variant: 'huge' } },
      422,
      'model.variant: expected high',
    ],
    [
      { id: 'm', text: 'x', metadata: { model: { provider_id: 'openai', model_id: 'plain', variant: 'high' } } },
      422,
      'metadata.model.variant: expected none, because "openai/plain" has no variants',
    ],
    [
      { id: 'm', text: 'x', model: { provider_id: 'openai', model_id: 'test', effort: 1 } },
      400,
      'model.effort: expected no such field',
    ],
    [{ id: 'm', text: 'x', model: 'openai/none' }, 422, 'model: expected a configured model (openai/test, '],
    [{ id: 'm', text: 'x', metadata: { model: 'openai/none' } }, 422, 'metadata.model: expected a configured model'],
    [
      { id: 'm', model: 'openai/plain', parts: [{ type: 'text', text: 'x' }, PNG] },
      422,
      'parts[1]: expected text or pdf, which the model "openai/plain" takes, not image: leave it out, or choose a model that takes it, such as openai/sees',
    ],
    ['{"id": "m", "text":', 400, 'body: expected JSON'],
    ['[1]', 400, 'body'],
    [`{"id":"m","text":"x","metadata":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`, 400, 'levels of nesting'],
    ['{"id":"m","text":"x","metadata":{"__proto__":{"a":1}}}', 400, '__proto__'],
    ['{"id":"m","text":"x","metadata":{"a":[1e999]}}', 400, 'body: expected numbers that a double can hold'],
    [{ id: 'm', text: 'x', metadata: { filler: 'x'.repeat(1_100_000) } }, 413, 'PERDURE_MAX_BODY'],
  ])('H2 an invalid message is refused with the field named (%#)', async (body, status, words) => {
    const id = await openSession();
    const answer = await ada.post(`/api/sessions/${id}/messages`, body);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.body.detail).toContain(words);
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toEqual([]);
  });

  it('X10 keep the model that they name, with its variant, and files that the model carried forward can take', async () => {
    const id = await openSession();
    const send = (body: object) => ada.post(`/api/sessions/${id}/messages`, body);
    const model = { provider_id: 'openai', model_id: 'test', variant: 'high' };
    expect((await send({ id: 'm1', text: 'x', model })).status).toBe(202);
    expect((await send({ id: 'm2', text: 'x', metadata: { model, colour: 'red' } })).status).toBe(202);
    expect((await send({ id: 'm3', parts: [PNG], model: 'openai/sees' })).status).toBe(202);
    expect((await send({ id: 'm4', parts: [PNG] })).status, 'carried forward').toBe(202);
    expect((await send({ id: 'm5', text: 'x', model: 'openai/plain' })).status).toBe(202);
    expect((await send({ id: 'm6', parts: [PNG] })).body, 'carried forward').toMatchObject({
      code: 'ModalityNotSupported',
      errors: [{ field: 'parts[0]', expected: expect.stringContaining('"openai/plain"') as string }],
    });
    const init = { method: 'POST', headers: { 'content-type': 'image/png' }, body: Buffer.from(PIXEL, 'base64') };
    const { url } = (await (await ada.fetch(`/api/sessions/${id}/attachments`, init)).json()) as { url: string };
    const untold = { id: 'm7', parts: [{ type: 'file', mediaType: '', url }] };
    expect((await send(untold)).body, 'of a type that was not told').toMatchObject({ code: 'ModalityNotSupported' });
    const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body as { items: { metadata: object }[] };
    expect(items.map(({ metadata }) => metadata)).toEqual([
      { session_id: id, model },
      { session_id: id, model, colour: 'red' },
      { session_id: id, model: { provider_id: 'openai', model_id: 'sees' } },
      { session_id: id },
      { session_id: id, model: { provider_id: 'openai', model_id: 'plain' } },
    ]);
    expect((await ada.get(`/api/sessions/${id}`)).body.chat.model).toBe('openai/plain');
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

describe('search', () => {
  it('T6 finds what its user has said, with snippets; nobody else does', async () => {
    const session = await openSession();
    await ada.post(`/api/sessions/${session}/messages`, { id: 'quince', text: 'Is a quince <b>sweet</b>?' });
    await db.query(`SELECT settle_run($1, 1, NULL, 'aborted', NULL, NULL, NULL)`, [session]);
    const { status, body } = await ada.get('/api/search?q=QUINCE');
    expect(status).toBe(200);
    expect(body.items).toEqual([
      {
        session_id: session,
        message_id: 'quince',
        role: 'user',
        hidden: false,
        created_at: expect.stringMatching(/Z$/),
        snippet: expect.stringContaining('Is a quince'),
        matches: [{ start: 5, end: 11 }],
      },
    ]);
    expect((await eve.get('/api/search?q=quince')).body).toEqual({ items: [] });
  });

  it.each([
    ['', 'q: expected text to search for'],
    ['q=', 'q: expected text to search for, 1 to 512 characters'],
    ['q=%00', 'q: expected text to search for'],
    [`q=${'x'.repeat(513)}`, 'q: expected text to search for'],
    ['q=x&limit=0', 'limit: expected a number of at least 1'],
  ])('T6 ?%s is refused, with the parameter named', async (query, words) => {
    const { status, body } = await ada.get(`/api/search?${query}`);
    expect([status, body.detail]).toEqual([400, expect.stringContaining(words)]);
  });
});

describe('commands while Temporal is down', () => {
  it('H2 are 503 Unavailable after 10 s, outcome unknown; W3 a reason was stored before the command was sent', async () => {
    await expectLeastOfThree('a command without Temporal', 11_000, async () => {
      const id = await openSession();
      const from = performance.now();
      const answer = await ada.post(`/api/sessions/${id}/cancel`, { reason: 'changed my mind' });
      const took = performance.now() - from;
      expect(answer).toMatchObject({ status: 503, body: { code: 'Unavailable', status: 503 } });
      expect(answer.body.detail).toContain('Idempotency-Key');
      const { items } = (await ada.get(`/api/sessions/${id}/log`)).body;
      expect(items).toMatchObject([
        { seq: 1, kind: 'opened' },
        { seq: 2, kind: 'reason', actor: 'user', data: { text: 'changed my mind' } },
      ]);
      return took;
    });
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

  it.concurrent.each([
    ['cancel', {}, { reason: 'a bug' }, { reason: 'a whim' }],
    ['branch', { from_message_id: 'm1' }, { metadata: { a: 1, b: 2 } }, { metadata: { a: 2 } }],
  ])(
    'H2 %s under a key that brought other content is KeyReused, and nothing is logged',
    async (name, rest, given, other) => {
      const id = await openSession();
      const send = async (content: object) =>
        codeOf(await ada.post(`/api/sessions/${id}/${name}`, { ...rest, ...content }, { 'idempotency-key': 'k1' }));
      const log = async () => (await ada.get(`/api/sessions/${id}/log`)).body as { items: object[] };
      const first = send(given);
      const before = await eventually(async () => {
        const logged = await log();
        expect(logged.items).toHaveLength(2);
        return logged;
      });
      expect([await send(other), await send({})]).toEqual([
        [422, 'KeyReused'],
        [422, 'KeyReused'],
      ]);
      expect(await Promise.all([first, send(given)])).toEqual([
        [503, 'Unavailable'],
        [503, 'Unavailable'],
      ]);
      expect(await log()).toEqual(before);
    },
  );
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
    ...['abort', 'cancel', 'publish', 'revert', 'close', 'archive'].map(
      (name): [method: 'POST', path: string, body: unknown] => ['POST', `/${name}`, {}],
    ),
    ['POST', '/rewind', { message_id: 'm1' }],
    ['POST', '/unrewind', {}],
    ['POST', '/branch', { from_message_id: 'm1' }],
    ...['compact', 'prune'].map((name): [method: 'POST', path: string] => ['POST', `/${name}`]),
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

  it('H8 opens a session with the agent that the body names, and refuses another one afterwards', async () => {
    const ask = async (id: string, text: string, agent?: string | null) => {
      const response = await ada.fetch('/api/chat', {
        method: 'POST',
        body: JSON.stringify(chat(id, text, { agent })),
      });
      const { status } = response;
      const [first] = status === 200 ? await firstChunks(response, 1) : [await response.json()];
      return [status, (first as { detail?: string }).detail];
    };
    const refused = [400, 'agent: expected "secretary", the agent of this session, or none'];
    expect(await ask('notes', 'one', 'secretary')).toEqual([200, undefined]);
    const { session, chat: opened } = (await ada.get('/api/sessions/notes')).body;
    expect(opened.agent).toBe('secretary');
    expect(await ask('notes', 'two', 'secretary')).toEqual([200, undefined]);
    expect(await ask('notes', 'three', 'site-builder')).toEqual(refused);
    expect(await ask(session.session_id as string, 'four', 'site-builder')).toEqual(refused);
    expect(await ask('notes', 'five')).toEqual([200, undefined]);
    expect(await ask('notes', 'six', null)).toEqual([200, undefined]);
    expect((await ada.get('/api/sessions/notes/messages')).body.items).toHaveLength(4);
    expect(await ask('more notes', 'one', 'nobody')).toEqual([422, expect.stringContaining('site-builder, secretary')]);
    expect((await ada.get('/api/sessions/more%20notes')).status).toBe(404);
    const other = { method: 'POST', body: JSON.stringify(chat(session.session_id as string, 'x', { agent: 'other' })) };
    expect((await eve.fetch('/api/chat', other)).status).toBe(404);
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
    ['an unknown model', { model: 'openai/none' }, 'model: expected a configured model (openai/test, '],
    [
      'an unknown variant',
      { model: { provider_id: 'openai', model_id: 'test', variant: 'x' } },
      'model.variant: expected high',
    ],
    [
      'an unknown model in a message',
      { messages: [{ id: 'm', role: 'user', parts: [PNG], metadata: { model: 'openai/none' } }] },
      'messages[0].metadata.model: expected a configured model',
    ],
    [
      'a file that the model cannot take',
      { model: 'openai/plain', messages: [{ id: 'm', role: 'user', parts: [PNG] }] },
      'messages[0].parts[0]: expected text or pdf, which',
    ],
  ])('H8 %s is refused with the field named', async (_what, more, words) => {
    const answer = await ada.post('/api/chat', chat('bad', 'x', more));
    expect([400, 422]).toContain(answer.status);
    expect(answer.body.detail).toContain(words);
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
  it('R5 begin with the status and report a change when its pointer arrives', async () => {
    const id = await openSession();
    // So that no poll finds the change.
    onTestFinished(await withoutFunction(db, 'changed_sessions'));
    const events = eventsOf(await ada.fetch(`/api/sessions/${id}/events`));
    expect((await events.next()).value).toEqual({ event: 'status', data: { state: 'idle' } });
    await ada.post(`/api/sessions/${id}/messages`, { id: 'm1', text: 'x' });
    expect((await events.next()).value).toMatchObject({ event: 'status', data: { state: 'busy', message_id: 'm1' } });
    await events.return(undefined);
  });
});

it('Q2 a host with too many requests in progress refuses more of them at once, and says when to try again', async () => {
  const gate = new Gate();
  const identify = async (request: Request) => {
    if (request.headers.has('x-slow')) await gate.pass();
    return { user: 'ada' };
  };
  const busy = await startHost({ databaseUrl: await freshDatabase(), parts: { maxRequests: 2, identify } });
  const url = `${busy.url}/api/sessions`;
  const slow = [1, 2].map(() => fetch(url, { headers: { 'x-slow': 'yes' } }));
  await eventually(async () => expect((await fetch(url)).status).toBe(503));
  const refused = await fetch(url);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await refused.json()).toMatchObject({ code: 'Unavailable', detail: expect.stringContaining('2 requests') });
  expect((await fetch(`${busy.url}/healthz`)).status).toBe(200);
  gate.open();
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await fetch(url)).status).toBe(200);
});

describe('state', () => {
  const at = (id: string) => `/api/sessions/${id}/state`;

  it('H2 is read and changed by events, which the log attributes to their author', async () => {
    const id = await openSession();
    const neighbour = await openSession();
    const before = (await ada.get(at(id))).body as { lastUpdateTime: number };
    const changed = await ada.post(at(id), {
      stateDelta: { step: 1, 'user:theme': 'dark', 'temp:gone': 'canary' },
      stateIncrements: { 'user:visits': 2 },
    });
    expect(changed).toMatchObject({
      status: 200,
      body: { state: { step: 1, 'user:theme': 'dark', 'user:visits': 2 } },
    });
    expect(changed.body.lastUpdateTime).toBeGreaterThan(before.lastUpdateTime);
    expect((await ada.get(at(id))).body).toEqual(changed.body);
    await ada.post(at(neighbour), { stateDeletions: ['user:theme'] });
    expect((await ada.get(at(id))).body.state).toEqual({ step: 1, 'user:visits': 2 });
    const { items } = (await ada.get(`/api/sessions/${id}/log`)).body as { items: { kind: string; data: unknown }[] };
    expect(items.at(-1)).toMatchObject({
      kind: 'state',
      actor: 'user',
      data: { event: { author: 'ada' }, set: { step: 1, 'user:theme': 'dark', 'user:visits': 2 }, deleted: [] },
    });
    expect(JSON.stringify(items)).not.toContain('canary');
  });

  it('K3 app: is changed by administrators only, and another user has no such session', async () => {
    const id = await openSession();
    expect(codeOf(await ada.post(at(id), { stateDelta: { a: 1, 'app:motd': 'x' } }))).toEqual([403, 'Forbidden']);
    expect(codeOf(await ada.post(at(id), { stateDeletions: ['app:motd'] }))).toEqual([403, 'Forbidden']);
    expect(codeOf(await eve.post(at(id), { stateDelta: { a: 1 } }))).toEqual([404, 'SessionNotFound']);
    expect(codeOf(await eve.get(at(id)))).toEqual([404, 'SessionNotFound']);
    expect((await ada.get(at(id))).body.state).not.toHaveProperty('a');
  });

  it('K3 a repeat changes nothing, and gets the state as it is now; what was changed since lastUpdateTime is not overwritten', async () => {
    const id = await openSession();
    const key = { 'idempotency-key': 'once' };
    for (let n = 0; n < 2; n += 1) {
      // What its sender knew of the session is not compared.
      const seen = n === 0 ? {} : { versions: {}, lastUpdateTime: 0 };
      const { body } = await ada.post(at(id), { stateIncrements: { n: 1 }, ...seen }, key);
      expect(body.state).toMatchObject(n === 0 ? { n: 1 } : { n: 1, later: 1 });
      await ada.post(at(id), { stateDelta: { later: 1 } });
    }
    expect(codeOf(await ada.post(at(id), { stateIncrements: { n: 2 } }, key))).toEqual([422, 'KeyReused']);
    // What was refused is decided again.
    const another = { 'idempotency-key': 'again' };
    const refused = await ada.post(at(id), { stateDelta: { later: 2 }, versions: {} }, another);
    expect(codeOf(refused)).toEqual([409, 'StaleSession']);
    expect((await ada.post(at(id), { stateDelta: { later: 2 } }, another)).body.state).toMatchObject({ later: 2 });
    const { lastUpdateTime } = (await ada.get(at(id))).body as { lastUpdateTime: number };
    expect((await ada.post(at(id), { stateDelta: { n: 5 }, lastUpdateTime })).status).toBe(200);
    expect(codeOf(await ada.post(at(id), { stateDelta: { n: 6 }, lastUpdateTime }))).toEqual([409, 'StaleSession']);
    expect((await ada.post(at(id), { stateDelta: { added: 1 }, lastUpdateTime })).body.state).toMatchObject({
      n: 5,
      added: 1,
    });
  });

  it('K3 with the versions of an earlier answer, keys that others share are changed, too, and never overwritten', async () => {
    const id = await openSession();
    const neighbour = await openSession();
    const { versions, lastUpdateTime } = (await ada.post(at(id), { stateDelta: { n: 1, 'user:read': 1 } })).body;
    expect(versions).toMatchObject({ n: expect.any(Number), 'user:read': expect.any(Number) });
    // What happens to other keys does not matter, nor when.
    await ada.post(at(id), { stateDelta: { m: 1 } });
    const change = { stateDelta: { 'user:read': 2 }, stateDeletions: ['n'], versions, lastUpdateTime };
    const changed = await ada.post(at(id), change);
    expect([changed.status, changed.body.state['user:read'], changed.body.versions.n]).toEqual([200, 2, undefined]);
    const added = { stateDelta: { toString: 1 }, versions: changed.body.versions };
    expect((await ada.post(at(id), added)).status).toBe(200);
    expect(codeOf(await ada.post(at(id), added))).toEqual([409, 'StaleSession']);
    await ada.post(at(neighbour), { stateIncrements: { 'user:read': 1 } });
    for (const { versions: old } of [{ versions }, changed.body]) {
      const refused = await ada.post(at(id), { stateDelta: { 'user:read': 9 }, versions: old });
      expect(codeOf(refused)).toEqual([409, 'StaleSession']);
    }
    expect((await ada.get(at(id))).body.state['user:read']).toBe(3);
  });

  it.each([
    [{ stateDelta: { 'user:': 1 } }, 400, 'stateDelta["user:"]'],
    [{ stateDelta: { a: 'x'.repeat(70_000) } }, 413, 'stateDelta["a"]'],
    [{ stateDelta: { a: 1 }, stateDeletions: ['a'] }, 400, 'actions["a"]'],
    [{ stateIncrements: { a: '1' } }, 400, 'stateIncrements.a'],
    [{ statedelta: {} }, 400, 'statedelta'],
    [{ stateDelta: [] }, 400, 'stateDelta'],
  ])('K1 %j is refused with its path, and nothing is applied', async (body, status, field) => {
    const id = await openSession();
    const answer = await ada.post(at(id), body);
    expect([answer.status, answer.body.errors[0].field]).toEqual([status, field]);
    expect((await ada.get(at(id))).body.state).not.toHaveProperty('a');
  });
});
