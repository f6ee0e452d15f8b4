// Files that users attach to messages: stored in Postgres and in an S3-compatible store, given to models, shown to their owner.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Client } from '@temporalio/client';
import type { UIMessage } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ActivityContext } from '../../activities/activity-context.ts';
import { withAttachments } from '../../activities/prompt/with-attachments.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { newId } from '../../domain/ids.ts';
import { Contents } from '../../store/contents.ts';
import type { Db } from '../../store/db.ts';
import { nameStatements } from '../../store/named-statements.ts';
import type { S3Options } from '../../store/s3.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { attached, wholeContent } from '../../tools/test-kit/attached.ts';
import { startBucket, startStore } from '../../tools/test-kit/bucket.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { allHistories } from '../faults/history.ts';

const PNG = Buffer.from(PIXEL, 'base64');
const PDF = Buffer.from('%PDF-1.7\n%%EOF\n');
const MAX_FILE = 3 * 1024 ** 2;

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let eve: TestCaller;
beforeAll(async () => {
  runtime = await startRuntime({
    script: (asked) => (lastUserText(asked).startsWith('hang') ? [say('So far'), hang()] : [say('Seen.')]),
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, clientOptions: { maxFileBytes: MAX_FILE } });
  [ada, eve] = [host.as('ada'), host.as('eve')];
});

/** A multipart form with a file; by default it breaks off. */
function formWith(bytes: Buffer, end = ''): Buffer {
  const head = '--a\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n';
  return Buffer.concat([Buffer.from(head), bytes, Buffer.from(end)]);
}

/** A content, as it is received. */
async function* of(pieces: Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

/** A session of ada's. */
async function opened(): Promise<string> {
  return (await ada.post('/api/sessions', {})).body.session.session_id as string;
}

/** Uploads a raw body. */
async function upload(session: string, content: Buffer | string, type: string, filename = '', caller = ada) {
  const query = filename === '' ? '' : `?filename=${encodeURIComponent(filename)}`;
  const response = await caller.fetch(`/api/sessions/${session}/attachments${query}`, {
    method: 'POST',
    headers: { 'content-type': type },
    body: content as never,
  });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

const fileOf = (attachment: Record<string, string>) => ({
  type: 'file',
  mediaType: attachment['media_type'],
  url: attachment['url'],
  ...(attachment['as'] !== undefined && { filename: attachment['as'] }),
});

/** Sends a message with attachments, and waits for its answer. Returns the request to the model. */
async function send(session: string, text: string, ...attachments: Record<string, string>[]): Promise<ChatRequest> {
  const number = runtime.model.requests.length;
  const parts = [{ type: 'text', text }, ...attachments.map(fileOf)];
  const { run_seq } = await host.client.submit('ada', session, { parts: parts as never });
  for await (const _ of host.client.follow('ada', session, run_seq));
  return runtime.model.requests[number]!.body;
}

const userContent = ({ messages }: ChatRequest) => messages.findLast(({ role }) => role === 'user')?.content;

describe('an upload', () => {
  it.each([
    ['an image', PNG, 'application/octet-stream', 'image/png', 'inline'],
    ['a PDF', PDF, 'text/plain', 'application/pdf', 'attachment'],
    ['a text', Buffer.from('grüße'), 'text/markdown; charset=utf-8', 'text/markdown', 'attachment'],
    ['a page', Buffer.from('<script>alert(1)</script>'), 'text/html', 'text/html', 'attachment'],
    ['a text without a type', Buffer.from('plain'), '', 'text/plain', 'attachment'],
    ['a text of no named type', Buffer.from('plain'), 'application/octet-stream', 'text/plain', 'attachment'],
  ])('T10 of %s is stored, and shown to its owner only', async (_name, bytes, sent, kept, disposition) => {
    const session = await opened();
    const { status, body } = await upload(session, bytes, sent, '../Übersicht "1".x');
    expect([status, body]).toEqual([
      201,
      {
        attachment_id: expect.stringMatching(/^att_\w+$/),
        media_type: kept,
        filename: 'Übersicht "1".x',
        size: bytes.length,
        url: `perdure:${body['attachment_id']}`,
      },
    ]);
    const at = `/api/sessions/${session}/attachments/${body['attachment_id']}`;
    const shown = await ada.fetch(at);
    expect(Buffer.from(await shown.arrayBuffer())).toEqual(bytes);
    const name = `filename="_bersicht _1_.x"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.x`;
    expect(Object.fromEntries(shown.headers)).toMatchObject({
      'content-type': kept.startsWith('text/') ? 'text/plain; charset=utf-8' : kept,
      'content-disposition': `${disposition}; ${name}`,
      'cache-control': expect.stringContaining('private'),
      'content-security-policy': expect.stringContaining('sandbox'),
      'x-content-type-options': 'nosniff',
    });
    expect((await eve.get(at)).body.code).toBe('SessionNotFound');
    expect((await ada.get(`/api/sessions/${await opened()}/attachments/${body['attachment_id']}`)).body.code).toBe(
      'AttachmentNotFound',
    );
  });

  it('T10 may be a form, and the same bytes are stored once in a session', async () => {
    const session = await opened();
    const form = new FormData();
    form.append('note', 'ignored');
    form.append('file', new Blob([PNG], { type: 'image/png' }), 'dot.png');
    const first = await ada.fetch(`/api/sessions/${session}/attachments`, { method: 'POST', body: form });
    const one = (await first.json()) as Record<string, string>;
    expect([first.status, one['filename'], one['media_type']]).toEqual([201, 'dot.png', 'image/png']);
    const again = await upload(session, PNG, 'image/png', 'other.png');
    expect(again.body).toEqual(one);
    const { rows } = await runtime.db.query('SELECT FROM attachments WHERE session_id = $1', [session]);
    expect(rows).toHaveLength(1);
  });

  it('T10 Q3 counts as a stream of its reader until it has been read', async () => {
    const session = await opened();
    const { databaseUrl, temporal, workspaces } = runtime;
    const few = await startHost({ databaseUrl, temporal, workspaces, parts: { maxReaders: 1 } });
    const reader = few.as('ada');
    const { attachment_id } = (await upload(session, Buffer.alloc(MAX_FILE, 'x'), 'text/plain')).body;
    const file = `/api/sessions/${session}/attachments/${attachment_id}`;
    const original = few.client.attachment.bind(few.client);
    const gate = Promise.withResolvers<void>();
    few.client.attachment = async (...asked) => {
      const found = await original(...asked);
      async function* held() {
        await gate.promise;
        yield* found.content;
      }
      return { ...found, content: held() };
    };
    const first = await reader.fetch(file);
    expect(await reader.get(file)).toMatchObject({ status: 429, body: { code: 'TooMany' } });
    gate.resolve();
    expect((await first.arrayBuffer()).byteLength).toBe(MAX_FILE);
    await eventually(async () => {
      const again = await reader.fetch(file);
      await again.body?.cancel();
      expect(again.status).toBe(200);
    });
  });

  it('T10 has a name that looks like what it is, also in a message', async () => {
    const session = await opened();
    const { body } = await upload(session, PNG, 'image/png', 'photo\u202Egnp.exe\n');
    expect(body['filename']).toBe('photognp.exe');
    await send(session, 'look', { ...body, as: '\u202Egnp.exe\r\n' });
    const { items } = (await ada.get(`/api/sessions/${session}/messages`)).body as { items: UIMessage[] };
    expect(items[0]!.parts[1]).toMatchObject({ filename: 'gnp.exe' });
  });

  it('T10 has the media type of its content in a message, too; one of another kind is refused', async () => {
    const session = await opened();
    const { body } = await upload(session, '# One', 'text/markdown');
    const lying = { parts: [{ type: 'file', mediaType: 'image/png', url: body['url'] }] };
    const foreign = await eve.post(`/api/sessions/${session}/messages`, lying);
    expect([foreign.status, foreign.body.code]).toEqual([404, 'SessionNotFound']);
    const refused = await ada.post(`/api/sessions/${session}/messages`, lying);
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [{ field: 'parts[0].mediaType', expected: '"text/markdown", which the file is' }],
    ]);
    const json = (await upload(session, '{}', 'application/json')).body;
    await send(session, 'look', { ...body, media_type: 'text/plain' }, { ...json, media_type: 'text/plain' });
    const { items } = (await ada.get(`/api/sessions/${session}/messages`)).body as { items: UIMessage[] };
    expect(items[0]!.parts.slice(1)).toMatchObject([{ mediaType: 'text/markdown' }, { mediaType: 'application/json' }]);
  });

  it('T10 to an alias without a session opens one', async () => {
    const alias = newId('msg');
    expect((await upload(alias, PNG, 'image/png')).status).toBe(201);
    expect((await ada.get(`/api/sessions/${alias}`)).status).toBe(200);
    expect((await upload('ses_unknown', PNG, 'image/png')).body['code']).toBe('SessionNotFound');
    expect((await upload(await opened(), PNG, 'image/png', '', eve)).body['code']).toBe('SessionNotFound');
  });

  it.each([
    ['over the limit', Buffer.alloc(MAX_FILE + 1, 'x'), 'text/plain', 413, 'PERDURE_MAX_FILE'],
    [
      'over the limit in a form',
      formWith(Buffer.alloc(MAX_FILE + 1, 'x'), '\r\n--a--\r\n'),
      'multipart/form-data; boundary=a',
      413,
      'PERDURE_MAX_FILE',
    ],
    ['that breaks off in a form', formWith(PNG), 'multipart/form-data; boundary=a', 400, 'a whole form'],
    ['of another type', Buffer.from([0x50, 0x4b, 0x03, 0x04, 0xff]), 'image/png', 400, 'expected a PNG'],
    ['with a zero byte', Buffer.from('a\0b'), 'text/plain', 400, 'expected a PNG'],
    ['that is empty', Buffer.alloc(0), 'text/plain', 400, 'file: expected'],
    ['that is no form', Buffer.from('x'), 'multipart/form-data', 400, 'a form with a boundary'],
    ['without a file', Buffer.from('--a--\r\n'), 'multipart/form-data; boundary=a', 400, 'a form with a file'],
  ])('T10 %s is refused, and stores nothing', async (_name, bytes, type, status, detail) => {
    const session = await opened();
    const before = await contents();
    const refused = await upload(session, bytes, type);
    expect([refused.status, refused.body['detail']]).toEqual([status, expect.stringContaining(detail)]);
    expect(await contents()).toEqual(before);
  });

  it.each([
    ['too large', 413, { 'content-type': 'text/plain' }],
    ['too large in a form', 413, { 'content-type': 'multipart/form-data; boundary=a' }],
    ['compressed', 400, { 'content-encoding': 'gzip' }],
    ['a form without a boundary', 400, { 'content-type': 'multipart/form-data' }],
  ])('T10 that is refused leaves its connection to the next request: %s', async (_name, status, more) => {
    const url = `${host.url}/api/sessions/${await opened()}/attachments`;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const headers = { 'x-perdure-user': 'ada' };
    const answer = async (sent: ClientRequest) => {
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      response.resume();
      return response.statusCode;
    };
    try {
      for (let n = 0; n < 3; n += 1) {
        const sent = request(url, { agent, method: 'POST', headers: { ...headers, ...more } });
        sent.end(formWith(Buffer.alloc(MAX_FILE + 500_000, 'x'), '\r\n--a--\r\n'));
        const next = request(`${host.url}/api/sessions`, { agent, headers });
        next.end();
        const sockets = Promise.all([once(sent, 'socket'), once(next, 'socket')]);
        expect(await Promise.all([answer(sent), answer(next)])).toEqual([status, 200]);
        const [[first], [second]] = (await sockets) as [unknown[], unknown[]];
        expect(first === second).toBe(true);
      }
    } finally {
      agent.destroy();
    }
  });

  it('T10 that breaks off stores nothing, in a form neither', async () => {
    const session = await opened();
    const before = await contents();
    for (const type of ['image/png', 'multipart/form-data; boundary=a']) {
      const sent = request(`${host.url}/api/sessions/${session}/attachments`, {
        method: 'POST',
        headers: { 'x-perdure-user': 'ada', 'content-type': type, 'content-length': '100000' },
      });
      sent.on('error', () => {});
      sent.write(type.startsWith('multipart') ? formWith(PNG) : PNG);
      await once(sent, 'socket');
      await new Promise((resolve) => sent.write(PNG, resolve));
      const closed = new Promise((resolve) => sent.on('close', resolve));
      sent.destroy();
      await closed;
    }
    // The host has received what was sent before by then.
    expect((await upload(session, PDF, 'application/pdf')).status).toBe(201);
    expect(await contents()).toHaveLength(before.length + 1);
    // A sender that leaves is no failure of the host.
    await eventually(async () => {
      const metrics = await (await fetch(`${host.url}/metrics`)).text();
      expect(metrics).toMatch(/perdure_http_request_seconds_count\{[^}]*attachments[^}]*status="499"[^}]*\} 2$/m);
      expect(metrics).not.toMatch(/perdure_http_request_seconds_count\{[^}]*attachments[^}]*status="503"/);
    });
    expect(host.logs.filter(({ msg }) => msg.includes('could not be served'))).toEqual([]);
  });

  it('T10 of a slow sender keeps no other user waiting, and each sender’s share of uploads is received', async () => {
    const session = await opened();
    const ofEve = (await eve.post('/api/sessions', {})).body.session.session_id as string;
    const begun = new Set<number>();
    const { client } = host;
    const original = client.attach.bind(client);
    let called = 0;
    client.attach = (user, to, file, ...rest) => {
      const number = (called += 1);
      async function* watched() {
        if (user === 'ada') begun.add(number);
        yield* file.content;
      }
      return original(user, to, { ...file, content: watched() }, ...rest);
    };
    try {
      const senders = Array.from({ length: 16 }, (_, n) => slowUpload(session, `file ${n} `));
      await eventually(() => expect([called, begun.size]).toEqual([16, 4]));
      expect((await upload(ofEve, PNG, 'image/png', '', eve)).status).toBe(201);
      expect(begun.size).toBe(4);
      for (const { end } of senders) end();
      expect(await Promise.all(senders.map(({ status }) => status))).toEqual(senders.map(() => 201));
    } finally {
      client.attach = original;
    }
  });

  it('T10 whose host died is deleted after an hour, and one in progress is not', async () => {
    const contentsOf = new Contents(runtime.db);
    const [died, inProgress] = [newId('att'), newId('att')];
    for (const id of [died, inProgress]) await contentsOf.put(id, wholeContent(PNG));
    await runtime.db.query(
      "UPDATE attachment_contents SET unused_since = now() - interval '61 minutes' WHERE content_id = $1",
      [died],
    );
    await contentsOf.sweep(10);
    const left = await contents();
    expect(left).toContain(inProgress);
    expect(left).not.toContain(died);
    const { rows } = await runtime.db.query('SELECT FROM attachment_chunks WHERE content_id = $1', [died]);
    expect(rows).toEqual([]);
  });
});

/** Begins an upload of ada's, and sends the rest of it at `end`. */
function slowUpload(session: string, text: string): { end: () => void; status: Promise<number | undefined> } {
  const sent = request(`${host.url}/api/sessions/${session}/attachments`, {
    method: 'POST',
    headers: { 'x-perdure-user': 'ada', 'content-type': 'text/plain' },
  });
  afterFile(() => void sent.destroy());
  sent.write(text);
  const { promise: status, resolve, reject } = Promise.withResolvers<number | undefined>();
  sent.on('error', reject);
  sent.on('response', (response) => resolve(response.resume().statusCode));
  return { end: () => void sent.end('the end'), status };
}

async function contents(): Promise<string[]> {
  const { rows } = await runtime.db.query<{ content_id: string }>(
    'SELECT content_id FROM attachment_contents ORDER BY 1',
  );
  return rows.map((row) => row.content_id);
}

describe('a message with attachments', () => {
  it('T10 gives the model images and PDFs as data, and texts as text, in this turn and the next', async () => {
    const session = await opened();
    const [image, pdf, text] = [
      (await upload(session, PNG, 'image/png')).body,
      (await upload(session, PDF, 'application/pdf', 'a.pdf')).body,
      (await upload(session, 'one,two', 'text/csv', 'a.csv')).body,
    ];
    const asked = await send(session, 'look', image, pdf, text);
    const expected = [
      { type: 'text', text: 'look' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG.toString('base64')}` } },
      expect.objectContaining({ type: 'file' }),
      { type: 'text', text: '[file "a.csv" of type text/csv]\none,two' },
    ];
    expect(userContent(asked)).toEqual(expected);
    expect(JSON.stringify(asked)).toContain(PDF.toString('base64'));
    const { items } = (await ada.get(`/api/sessions/${session}/messages`)).body as { items: { parts: object[] }[] };
    expect(items[0]!.parts[1]).toEqual({ type: 'file', mediaType: 'image/png', url: image['url'] });

    const next = await send(session, 'and now');
    expect(next.messages.find(({ role }) => role === 'user')?.content).toEqual(expected);
  });

  it('T10 cuts off long texts, and tells the model so; a part may have another name', async () => {
    const session = await opened();
    const text = `${'grün '.repeat(60_000)}end`;
    const file = (await upload(session, text, 'text/plain', 'long.txt')).body;
    const content = userContent(await send(session, 'read', { ...file, as: 'other.txt' })) as string;
    expect(content.slice(0, 66)).toBe(
      `read\n\n[file "other.txt" of type text/plain]\n${'grün '.repeat(5).slice(0, 22)}`,
    );
    expect(content.slice(-50)).toMatch(/gr[ün ]*\n\[the first 262144 of 360003 bytes\]$/);
    expect(content).not.toContain('\uFFFD');
  });

  it('T10 H2 an empty media type, as browsers give unknown files, is application/octet-stream', async () => {
    const session = await opened();
    const text = (await upload(session, 'one: two', '', 'a.unknown')).body;
    const unknown = { type: 'file', mediaType: '', filename: 'b.unknown' };
    const parts = [
      { type: 'text', text: 'look' },
      { ...unknown, url: 'data:application/octet-stream;base64,AAECAw==' },
      { ...unknown, url: text['url'] },
    ];
    const number = runtime.model.requests.length;
    const body = JSON.stringify({ id: session, messages: [{ id: newId('msg'), role: 'user', parts }] });
    const response = await ada.fetch('/api/chat', { method: 'POST', body });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('Seen.')]);
    const { items } = (await ada.get(`/api/sessions/${session}/messages`)).body as { items: UIMessage[] };
    const type = 'application/octet-stream';
    expect(items[0]!.parts).toMatchObject([
      parts[0],
      { mediaType: type },
      { mediaType: 'text/plain', url: text['url'] },
    ]);
    expect(userContent(runtime.model.requests[number]!.body)).toBe(
      `look\n\n[file "b.unknown" of type ${type}: this model cannot read it]\n\n[file "b.unknown" of type text/plain]\none: two`,
    );
  });

  it('T10 W3 leaves neither names nor bytes in Temporal', async () => {
    const session = await opened();
    const secret = `canary${randomBytes(6).toString('hex')}`;
    const file = (await upload(session, secret, 'text/plain', `${secret}.txt`)).body;
    expect(JSON.stringify(await send(session, 'read', file))).toContain(secret);
    const histories = await eventually(async () => {
      const found = await historiesOf(runtime.temporal);
      expect(found).toContain(session);
      return found;
    });
    for (const word of [secret, Buffer.from(secret).toString('base64').slice(0, 12), file['attachment_id']!]) {
      expect(histories).not.toContain(word);
    }
  });

  it.each([
    ['of another session', async () => (await upload(await opened(), PNG, 'image/png')).body['url']!],
    ['that does not exist', async () => 'perdure:att_0'],
  ])('T10 refuses one %s', async (_name, urlOf) => {
    const session = await opened();
    const parts = [
      { type: 'text', text: 'x' },
      { type: 'file', mediaType: 'image/png', url: await urlOf() },
    ];
    const refused = await ada.post(`/api/sessions/${session}/messages`, { parts });
    expect([refused.status, refused.body.detail]).toEqual([
      400,
      'parts[1].url: expected the URL of an attachment of this session',
    ]);
    expect((await eve.post(`/api/sessions/${session}/messages`, { parts })).status).toBe(404);
    expect((await ada.get(`/api/sessions/${session}/messages`)).body.items).toEqual([]);
  });

  it('T10 is answered by another worker if the first one is lost, with the same bytes', async () => {
    const session = await opened();
    const image = (await upload(session, PNG, 'image/png')).body;
    const number = runtime.model.requests.length;
    const parts = [{ type: 'text' as const, text: 'hang on' }, fileOf(image)];
    const { run_seq } = await host.client.submit('ada', session, { parts: parts as never });
    await runtime.model.request(number);
    runtime.model.script(() => [say('Seen.')]);
    const second = await runtime.startWorker();
    await runtime.first.stop();
    for await (const _ of host.client.follow('ada', session, run_seq));
    const asked = runtime.model.requests.slice(number).map(({ body }) => userContent(body));
    expect(asked.length).toBeGreaterThan(1);
    for (const content of asked) expect(content).toEqual(asked[0]);
    expect(JSON.stringify(asked[0])).toContain(PNG.toString('base64'));
    // The answer is over before its activity is.
    await eventually(() => expect(second.worker.isBusy()).toBe(false));
  });
});

async function historiesOf(temporal: Client): Promise<string> {
  return (await allHistories(temporal)).join('\n');
}

describe('the attachments of a prompt', () => {
  /** A session's messages, each with a file whose bytes are in the store. */
  async function attachedTexts(contentsOf: Contents, texts: readonly string[]) {
    const sessionId = await opened();
    const to = { db: runtime.db, contents: contentsOf };
    const files = texts.map((text, n) => ({ bytes: Buffer.from(text), filename: `${n}.txt` }));
    const all = await Promise.all(files.map((file) => attached(to, sessionId, { ...file, mediaType: 'text/plain' })));
    return { sessionId, messages: all.map((part, n) => ({ id: `m${n}`, role: 'user' as const, parts: [part] })) };
  }

  const signal = new AbortController().signal;
  const contextOf = (contentsOf: Contents, db: Db = runtime.db) =>
    ({ db, contents: contentsOf, log: runtime.log }) as unknown as ActivityContext;
  const textsOf = (messages: UIMessage[]) =>
    messages.flatMap(({ parts }) => parts.map((part) => (part as { text: string }).text.split('\n')[1]));

  it('T10 that are small are stored with little memory', async () => {
    const chunks: Buffer[] = [];
    const query = (_sql: string, values: unknown[]) => {
      chunks.push(...values.filter((value) => Buffer.isBuffer(value)));
      return Promise.resolve({ rows: [] });
    };
    await new Contents({ query } as unknown as Db).put('a', wholeContent(Buffer.from('words')));
    expect(chunks.map(({ buffer }) => buffer.byteLength)).toEqual([5]);
  });

  it('T10 are found by one statement, and each small one is read by one', async () => {
    const texts = ['one', 'two', 'three', 'four', 'five'];
    const { sessionId, messages } = await attachedTexts(new Contents(runtime.db), texts);
    const statements: unknown[] = [];
    const query = (...given: unknown[]) => {
      statements.push(given[0]);
      return (runtime.db.query as (...args: unknown[]) => unknown)(...given);
    };
    const db = { query } as unknown as Db;
    nameStatements(db, true);
    const context = contextOf(new Contents(db), db);
    expect(textsOf(await withAttachments({ context, sessionId, signal }, messages))).toEqual(texts);
    expect(statements).toHaveLength(1 + texts.length);
    // Those of the next step are still there.
    expect(textsOf(await withAttachments({ context, sessionId, signal }, messages))).toEqual(texts);
    expect(statements).toHaveLength(2 + texts.length);
  });

  it('T10 are read four at a time', async () => {
    const store = await startStore();
    afterFile(store.close);
    const asked: (() => void)[] = [];
    let most = 0;
    store.behave(({ method, url = '' }, response) => {
      if (method === 'PUT') return false;
      most = Math.max(
        most,
        asked.push(() => void response.end(store.objects.get(url))),
      );
      return true;
    });
    const contentsOf = new Contents(runtime.db, store.s3);
    const texts = ['one', 'two', 'three', 'four', 'five', 'six'];
    const { sessionId, messages } = await attachedTexts(contentsOf, texts);
    const reading = withAttachments({ context: contextOf(contentsOf), sessionId, signal }, messages);
    for (const count of [4, 2]) {
      await eventually(() => expect(asked).toHaveLength(count));
      for (const resume of asked.splice(0)) resume();
    }
    expect(textsOf(await reading)).toEqual(texts);
    expect(most).toBe(4);
  });

  it('T10 R6 whose bucket is no longer configured are notes to the model, and so are those whose bytes are gone', async () => {
    const { sessionId, messages } = await attachedTexts(new Contents(runtime.db), ['one', 'two', 'three']);
    const contentOf = `content_id = (SELECT content_id FROM attachments WHERE session_id = $1 AND filename = $2)`;
    await runtime.db.query(`UPDATE attachment_contents SET place = 's3' WHERE ${contentOf}`, [sessionId, '0.txt']);
    await runtime.db.query(`DELETE FROM attachment_chunks WHERE ${contentOf}`, [sessionId, '1.txt']);
    const context = contextOf(new Contents(runtime.db));
    const shown = await withAttachments({ context, sessionId, signal }, messages);
    expect(shown.map(({ parts: [part] }) => (part as { text: string }).text)).toEqual([
      '[file "0.txt": no longer stored]',
      '[file "1.txt": no longer stored]',
      '[file "2.txt" of type text/plain]\nthree',
    ]);
  });

  /** What a model gets of PDFs of so many MiB, the newest last. */
  async function shownOf(...sizes: number[]): Promise<UIMessage[]> {
    const sessionId = await opened();
    const parts = [];
    for (const size of sizes) {
      const bytes = Buffer.concat([PDF, randomBytes(8), Buffer.alloc(size * 1024 ** 2 - PDF.length - 8)]);
      const to = { db: runtime.db, contents: new Contents(runtime.db) };
      parts.push(await attached(to, sessionId, { bytes, mediaType: 'application/pdf' }));
    }
    const messages = parts.map((part, n) => ({ id: `m${n}`, role: 'user' as const, parts: [part] }));
    const context = contextOf(new Contents(runtime.db));
    return withAttachments({ context, sessionId, signal }, messages);
  }

  it('T10 that several messages have count each time: older ones are notes', async () => {
    const sessionId = await opened();
    const stored = new Contents(runtime.db);
    const bytes = Buffer.concat([PDF, Buffer.alloc(8 * 1024 ** 2)]);
    const part = await attached({ db: runtime.db, contents: stored }, sessionId, {
      bytes,
      mediaType: 'application/pdf',
    });
    const messages = [1, 2, 3].map((n) => ({ id: `m${n}`, role: 'user' as const, parts: [{ ...part }] }));
    const shown = await withAttachments({ context: contextOf(stored), sessionId, signal }, messages);
    expect(shown.map(({ parts: [each] }) => each!.type)).toEqual(['text', 'file', 'file']);
  });

  it('T10 fit into a request of 32 MB in base64: older ones are notes', async () => {
    const shown = await shownOf(2, 2, 20);
    expect(shown.map(({ parts: [part] }) => part!.type)).toEqual(['text', 'file', 'file']);
    expect(shown[0]!.parts).toEqual([{ type: 'text', text: '[file without a name: no longer sent]' }]);
    expect(JSON.stringify(shown).length).toBeLessThan(32_000_000);
  });

  it('T10 one that no request holds is a note, and those before it are sent', async () => {
    const shown = await shownOf(2, 23, 2);
    expect(shown.map(({ parts: [part] }) => part!.type)).toEqual(['file', 'text', 'file']);
    expect(shown[1]!.parts).toEqual([{ type: 'text', text: '[file without a name: too large to be sent]' }]);
  });
});

describe.each(['Postgres', 'an S3-compatible store'])('content in %s', (place) => {
  let client: PerdureClient;
  let contentsThere: Contents;
  let objects: (() => Promise<string[]>) | undefined;
  let s3: S3Options | undefined;
  beforeAll(async () => {
    const bucket = place === 'Postgres' ? undefined : await startBucket(scratchDir());
    if (bucket) afterFile(bucket.close);
    ({ s3, objects } = bucket ?? {});
    client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal, ...(s3 && { s3 }) });
    afterFile(() => client.end());
    contentsThere = new Contents(runtime.db, s3);
  });

  /** Bytes of a stored file as its owner reads them. */
  const read = async (session: string, id: string) =>
    Buffer.concat(await Array.fromAsync((await client.attachment('ada', session, id)).content));
  const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

  it('T10 X4 T9 is read again, shared with a branch, and gone with the last session that has it', async () => {
    const before = [await contents(), (await objects?.()) ?? []];
    const { session } = await client.openSession('ada', { agent: 'site-builder' });
    const id = session.session_id;
    const bytes = Buffer.concat([PNG, randomBytes(2 * 1024 ** 2)]);
    const file = await client.attach('ada', id, { content: of([bytes]), filename: 'large.png' });
    expect(digest(await read(id, file.attachment_id))).toBe(digest(bytes));
    const unused = await client.attach('ada', id, { content: of([PDF]) });
    const { run_seq } = await client.submit('ada', id, {
      id: newId('msg'),
      parts: [{ type: 'file', mediaType: 'image/png', url: file.url }],
    });
    await client.commands.abort('ada', id, {});
    for await (const _ of client.follow('ada', id, run_seq));
    const { items } = await client.reads.messages('ada', id);
    const from = (items[0] as { id: string }).id;
    const branched = (await client.commands.branch('ada', id, { from_message_id: from })) as unknown as {
      session: { session_id: string };
    };
    const copy = branched.session.session_id;
    expect((await client.reads.messages('ada', copy)).items[0]).toMatchObject({ parts: [{ url: file.url }] });
    expect(digest(await read(copy, file.attachment_id))).toBe(digest(bytes));
    await expect(client.attachment('ada', copy, unused.attachment_id)).rejects.toThrow('no such attachment');

    await client.eraseSession('ada', copy);
    await contentsThere.sweep(100);
    expect(digest(await read(id, file.attachment_id))).toBe(digest(bytes));
    await client.eraseSession('ada', id);
    await contentsThere.sweep(100);
    expect([await contents(), (await objects?.()) ?? []]).toEqual(before);
  });

  it('T10 ten uploads at once are all whole', async () => {
    const { session } = await client.openSession('ada', { agent: 'site-builder' });
    const files = Array.from({ length: 10 }, () => Buffer.concat([PDF, randomBytes(600_000)]));
    const kept = await Promise.all(
      files.map((bytes) => client.attach('ada', session.session_id, { content: of([bytes]) })),
    );
    for (const [at, { attachment_id }] of kept.entries()) {
      expect(digest(await read(session.session_id, attachment_id))).toBe(digest(files[at]!));
    }
  });

  it('T10 a store that is away is an error, and leaves no attachment', async () => {
    if (s3 === undefined) return;
    const away = createClient({
      database: runtime.databaseUrl,
      temporal: runtime.temporal,
      s3: { ...s3, url: 'http://127.0.0.1:1/files' },
    });
    afterFile(() => away.end());
    const { session } = await client.openSession('ada', { agent: 'site-builder' });
    await expect(away.attach('ada', session.session_id, { content: of([PNG]) })).rejects.toThrow('cannot be reached');
    // Neither does it keep workers from deleting what is elsewhere.
    const [there, here] = [newId('att'), newId('att')];
    await contentsThere.put(there, wholeContent(PNG));
    await new Contents(runtime.db).put(here, wholeContent(PNG));
    await runtime.db.query("UPDATE attachment_contents SET unused_since = '-infinity' WHERE content_id = ANY ($1)", [
      [there, here],
    ]);
    await expect(new Contents(runtime.db).sweep(100)).rejects.toThrow('PERDURE_S3_URL');
    expect(await contents()).toEqual(expect.arrayContaining([there]));
    expect(await contents()).not.toContain(here);
    const { rows } = await runtime.db.query('SELECT FROM attachments WHERE session_id = $1', [session.session_id]);
    expect(rows).toEqual([]);
  });
});
