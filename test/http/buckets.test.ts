// Attachments in a bucket that is slow, full, away or has lost them: what uploads, readers and turns get.
import { createHash, randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { S3Bucket } from '../../store/s3.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { forgetContents, wholeContent } from '../../tools/test-kit/attached.ts';
import { away, refusing, stalled, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { fail, say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';

const MB = 1024 ** 2;
/** For a bucket that does nothing. */
const waitMs = patient(1_000);
const silent = `did nothing for ${waitMs} ms`;

async function newStore(): Promise<TestStore> {
  const store = await startStore();
  afterFile(store.close);
  return store;
}

/** A content of so many bytes, and how many of them were read in all attempts. */
function counted(size: number) {
  const piece = randomBytes(64 * 1024);
  let read = 0;
  async function* bytes() {
    for (let at = 0; at < size; at += piece.length) {
      read += piece.length;
      yield piece;
    }
  }
  const digest = createHash('sha256');
  for (let at = 0; at < size; at += piece.length) digest.update(piece);
  return { content: { digest: digest.digest('hex'), size, bytes }, read: () => read };
}

/** The digest of a body. */
async function digestOf(
  request: IncomingMessage,
  each: (piece: Buffer) => Promise<unknown> | void = () => {},
): Promise<string> {
  const digest = createHash('sha256');
  for await (const piece of request) {
    digest.update(piece as Buffer);
    await each(piece as Buffer);
  }
  return digest.digest('hex');
}

describe('a bucket', () => {
  it('T10 gets a file as it is read, with its length and digest', async () => {
    const store = await newStore();
    const { content, read } = counted(96 * MB);
    const got = Promise.withResolvers<{ headers: IncomingMessage['headers']; digest: string }>();
    /** Bytes that were read and have not arrived. */
    let held = 0;
    store.behave((request, response) => {
      let arrived = 0;
      held = read();
      const count = (piece: Buffer) => {
        arrived += piece.length;
        held = Math.max(held, read() - arrived);
      };
      void digestOf(request, count).then((digest) => {
        got.resolve({ headers: request.headers, digest });
        response.end();
      });
      return true;
    });
    await new S3Bucket(store.s3).put('a', content);
    expect(held).toBeLessThan(content.size / 2);
    const { headers, digest } = await got.promise;
    expect(digest).toBe(content.digest);
    expect(headers).toMatchObject({
      'content-length': String(content.size),
      'x-amz-content-sha256': content.digest,
      authorization: expect.stringMatching(/SignedHeaders=[^,]*x-amz-content-sha256/) as string,
    });
    expect(headers['transfer-encoding']).toBeUndefined();
  });

  it('T10 that fails for a moment gets the whole file again', async () => {
    const store = await newStore();
    const content = wholeContent(randomBytes(3 * MB));
    store.behave(
      (request, response) =>
        store.requests.length < 3 && refusing([429, 503][store.requests.length - 1]!)(request, response),
    );
    await new S3Bucket(store.s3).put('a', content);
    expect(store.requests).toHaveLength(3);
    expect(wholeContent(store.objects.get('/files/a')!).digest).toBe(content.digest);
  });

  it('T10 that refuses is asked once', async () => {
    const store = await newStore();
    store.behave(refusing(403));
    const bucket = new S3Bucket(store.s3);
    await expect(bucket.put('a', wholeContent(Buffer.from('a')))).rejects.toMatchObject({ isRefused: true });
    await expect(bucket.open('a')).rejects.toMatchObject({ isRefused: true });
    expect(store.requests).toEqual(['PUT /files/a', 'GET /files/a']);
  });

  it('T10 over a slow line gets a file in longer than it may do nothing', async () => {
    const store = await newStore();
    const { content } = counted(16 * MB);
    let ms = 0;
    store.behave((request, response) => {
      const from = performance.now();
      void digestOf(request, () => delay(patient(15))).then(() => {
        ms = performance.now() - from;
        response.end();
      });
      return true;
    });
    await new S3Bucket(store.s3, { waitMs }).put('a', content);
    expect([ms > 2 * waitMs, store.requests.length]).toEqual([true, 1]);
  });

  it('T10 that takes a file too slowly is given up, so that others do not wait for hours', async () => {
    const store = await newStore();
    store.behave((request) => {
      digestOf(request, () => delay(50)).catch(() => {});
      return true;
    });
    const put = new S3Bucket(store.s3, { waitMs, leastRate: 64 * MB }).put('a', counted(64 * MB).content);
    await expect(put).rejects.toThrow(`took less than ${64 * MB} bytes a second`);
    expect(store.requests).toHaveLength(1);
  });

  it('T10 that takes nothing, or does not answer, is waited for once', async () => {
    const store = await newStore();
    store.behave(stalled);
    const bucket = new S3Bucket(store.s3, { waitMs });
    await expect(bucket.put('a', counted(64 * MB).content)).rejects.toMatchObject({
      code: 'Unavailable',
      message: `the store of attachments ${silent}`,
    });
    await expect(bucket.put('a', wholeContent(Buffer.from('a')))).rejects.toThrow(silent);
    await expect(bucket.open('a')).rejects.toThrow(silent);
    await expect(bucket.remove('a')).rejects.toThrow(silent);
    expect(store.requests).toHaveLength(4);
  });

  it('T10 may send for longer than it may send nothing, and its reader may take its time', async () => {
    const store = await newStore();
    store.behave((_, response) => {
      response.write('first ');
      setImmediate(() => response.end('last'));
      return true;
    });
    const pieces: Uint8Array[] = [];
    for await (const piece of (await new S3Bucket(store.s3, { waitMs }).open('a'))!) {
      if (pieces.length === 0) await delay(1.5 * waitMs);
      pieces.push(piece);
    }
    expect(Buffer.concat(pieces).toString()).toBe('first last');
  });

  it('T10 that stops in the middle of a file is an error, and so is one that breaks off', async () => {
    const store = await newStore();
    const open = () => new S3Bucket(store.s3, { waitMs }).open('a');
    store.behave((_, response) => response.write('first'));
    await expect(Array.fromAsync((await open())!)).rejects.toThrow(silent);
    store.behave((_, response) => response.writeHead(200, { 'content-length': '10' }).write('first'));
    const reading = Array.fromAsync((await open())!);
    await store.close();
    await expect(reading).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('broke off') as string,
    });
  });

  it('T10 that is away is not waited for by what is stopped: that ends with its own reason', async () => {
    const store = await newStore();
    store.behave(away);
    const stop = new AbortController();
    const why = new Error('stopped');
    const opened = new S3Bucket(store.s3).open('a', stop.signal).catch((error: unknown) => error);
    // It pauses before the second attempt.
    await eventually(() => expect(getEventListeners(stop.signal, 'abort')).toHaveLength(1));
    stop.abort(why);
    expect(await opened).toBe(why);
    expect(store.requests).toHaveLength(1);
  });

  it('T10 that does nothing is not waited for by what is stopped, before its answer or within a file', async () => {
    const store = await newStore();
    const why = new Error('stopped');
    const bucket = new S3Bucket(store.s3, { waitMs: 600_000 });
    store.behave(stalled);
    const first = new AbortController();
    const opened = bucket.open('a', first.signal).catch((error: unknown) => error);
    await eventually(() => expect(store.requests).toHaveLength(1));
    first.abort(why);
    expect(await opened).toBe(why);
    store.behave((_, response) => response.write('first'));
    const second = new AbortController();
    const pieces = (await bucket.open('a', second.signal))![Symbol.asyncIterator]();
    await pieces.next();
    const read = pieces.next().catch((error: unknown) => error);
    second.abort(why);
    expect(await read).toBe(why);
  });

  it('T10 lets go of a file that nobody reads', async () => {
    const store = await newStore();
    const closed = Promise.withResolvers<void>();
    store.behave((_, response) => {
      response.on('close', () => closed.resolve());
      return response.write('first');
    });
    const pieces = (await new S3Bucket(store.s3).open('a'))!;
    await pieces[Symbol.asyncIterator]().return?.();
    await closed.promise;
  });
});

describe('a host and a worker with a bucket', () => {
  let store: TestStore;
  let runtime: TestRuntime;
  let host: TestHost;
  let ada: TestCaller;
  beforeAll(async () => {
    store = await newStore();
    runtime = await startRuntime({ s3: store.s3, script: () => [say('Seen.')], settings: { providerAttempts: 2 } });
    const { databaseUrl, temporal, workspaces } = runtime;
    host = await startHost({ databaseUrl, temporal, workspaces, clientOptions: { s3: store.s3 } });
    ada = host.as('ada');
  });

  const opened = async () => (await ada.post('/api/sessions', {})).body.session.session_id as string;
  const upload = async (session: string, body: string | Buffer, type = 'text/plain') => {
    const init = { method: 'POST', headers: { 'content-type': type }, body: body as never };
    const response = await ada.fetch(`/api/sessions/${session}/attachments?filename=a.txt`, init);
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  /** Sends a message with files. Returns its run. */
  const send = async (session: string, text: string, ...files: Record<string, string>[]) => {
    const parts = files.map(({ media_type: mediaType, url }) => ({ type: 'file', mediaType, url }));
    const message = { id: newId('msg'), parts: [{ type: 'text', text }, ...parts] };
    return (await host.client.submit('ada', session, message as never)).run_seq;
  };
  const lastAsked = () => JSON.stringify(runtime.model.requests.at(-1)!.body.messages);

  it.each([
    ['refuses it', refusing(403)],
    ['is full', refusing(507)],
    ['fails', refusing(500)],
    ['is away', away],
  ])('T10 H1 an upload to a bucket that %s is 503, and leaves no attachment', async (_name, behavior) => {
    const session = await opened();
    const [{ from }] = (await runtime.db.query<{ from: Date }>('SELECT now() AS from')).rows as [{ from: Date }];
    store.behave(behavior);
    const answers = await Promise.all(Array.from({ length: 8 }, (_each, n) => upload(session, `file ${n}`)));
    store.behave();
    expect(new Set(answers.map(({ status, body }) => `${status} ${body['code']}`))).toEqual(
      new Set(['503 Unavailable']),
    );
    expect(answers[0]!.body['detail']).toMatch(/^the store of attachments /);
    const { rows } = await runtime.db.query('SELECT FROM attachments WHERE session_id = $1', [session]);
    expect(rows).toEqual([]);
    // What a bucket has taken nevertheless is deleted later.
    const unused = await runtime.db.query('SELECT FROM attachment_contents WHERE unused_since > $1', [from]);
    expect(unused.rows).toHaveLength(8);
    expect((await upload(session, 'file 0')).status).toBe(201);
    // Nor a session for a new alias.
    const alias = newId('msg');
    store.behave(behavior);
    expect((await upload(alias, 'file 0')).status).toBe(503);
    store.behave();
    expect((await ada.get(`/api/sessions/${alias}`)).status).toBe(404);
  });

  it('T10 H1 a file that is lost is 404, and one whose bucket is away 503', async () => {
    const session = await opened();
    const { attachment_id: id } = (await upload(session, 'one')).body;
    const path = `/api/sessions/${session}/attachments/${id}`;
    store.behave(refusing(503));
    expect(await ada.get(path)).toMatchObject({ status: 503, body: { code: 'Unavailable' } });
    store.behave();
    expect(await ada.get(path)).toMatchObject({ status: 200, body: 'one' });
    store.objects.clear();
    const detail = 'the bytes of this attachment are no longer stored';
    expect(await ada.get(path)).toMatchObject({ status: 404, body: { code: 'AttachmentNotFound', detail } });
    await eventually(async () => expect(await host.openStreams('attachment')).toEqual([0]));
  });

  it('T10 H2 a bucket that is away is a failure of the host also for a caller that has left', async () => {
    const failures = async () => {
      const metrics = await (await fetch(`${host.url}/metrics`)).text();
      const line = /^perdure_http_request_seconds_count\{[^}]*attachment_id[^}]*status="503"[^}]*\} (\d+)$/m;
      return Number(line.exec(metrics)?.[1] ?? 0);
    };
    const session = await opened();
    const { attachment_id: id } = (await upload(session, 'one')).body;
    const before = await failures();
    const left = Promise.withResolvers<void>();
    store.behave((_request, response) => {
      void left.promise.then(() => response.writeHead(503).end());
      return true;
    });
    const asked = store.requests.length;
    const leaving = new AbortController();
    const answer = ada.fetch(`/api/sessions/${session}/attachments/${id}`, { signal: leaving.signal });
    await eventually(() => expect(store.requests).toHaveLength(asked + 1));
    leaving.abort();
    await expect(answer).rejects.toThrow();
    left.resolve();
    await eventually(async () => expect(await failures()).toBe(before + 1));
    store.behave();
  });

  it('T10 R6 a lost file is a note to the model, in this turn and later ones', async () => {
    const session = await opened();
    const lost = (await upload(session, 'lost words')).body;
    store.objects.clear();
    const kept = (await upload(session, Buffer.from(PIXEL, 'base64'), 'image/png')).body;
    const test = TestSession.of(runtime, session);
    for (const run of [await send(session, 'look', lost, kept), await send(session, 'and now')]) {
      expect(await test.ended(run)).toMatchObject({ state: 'finished' });
      expect(lastAsked()).toContain(String.raw`[file \"a.txt\": no longer stored]`);
      expect(lastAsked()).toContain(PIXEL);
    }
    const told = runtime.logs.find(({ msg }) => msg === 'an attachment is lost: the model is told so');
    expect(told).toMatchObject({ session, attachment: lost['attachment_id'] });
  });

  it('T10 H1 R6 a file of which a part is lost is lost: its GET breaks off, and the model gets a note', async () => {
    const session = await opened();
    const cut = (await upload(session, 'the first words and the last')).body;
    const [[name, bytes]] = [...store.objects].slice(-1) as [[string, Buffer]];
    store.objects.set(name, bytes.subarray(0, 15));
    const answer = await ada.fetch(`/api/sessions/${session}/attachments/${cut['attachment_id']}`);
    await expect(answer.text()).rejects.toThrow();
    expect(await TestSession.of(runtime, session).ended(await send(session, 'look', cut))).toMatchObject({
      state: 'finished',
    });
    expect(lastAsked()).toContain(String.raw`[file \"a.txt\": no longer stored]`);
    expect(lastAsked()).not.toContain('the first words');
    await eventually(async () => expect(await host.openStreams('attachment')).toEqual([0]));
  });

  it.each([
    ['cannot be reached', away],
    ['answered GET with status 503', refusing(503)],
  ])('T10 R6 a turn waits while its bucket is away, and says so: the store %s', async (reason, behavior) => {
    const session = await opened();
    const file = (await upload(session, 'the words')).body;
    const before = runtime.model.requests.length;
    store.behave(behavior);
    const run = await send(session, 'look', file);
    await eventually(async () => {
      const { body } = await ada.get(`/api/sessions/${session}/status`);
      expect(body).toMatchObject({ state: 'retrying', attempt: 2 });
      expect(body.message).toMatch(new RegExp(`^the store of attachments ${reason}, retry in`));
    });
    expect(runtime.model.requests).toHaveLength(before);
    store.behave();
    expect(await TestSession.of(runtime, session).ended(run)).toMatchObject({ state: 'finished' });
    expect(runtime.model.requests).toHaveLength(before + 1);
    expect(lastAsked()).toContain('the words');
  });

  it('T10 R6 attempts at a bucket that was away are none at the provider', async () => {
    const session = await opened();
    const file = (await upload(session, 'words of a long outage')).body;
    const first = runtime.model.requests.length;
    runtime.model.script((_request, index) => [index === first ? fail(503) : say('Seen.')]);
    store.behave(away);
    const run = await send(session, 'look', file);
    await eventually(async () => {
      const { body } = await ada.get(`/api/sessions/${session}/status`);
      expect(body).toMatchObject({ state: 'retrying', attempt: 2 });
    });
    store.behave();
    expect(await TestSession.of(runtime, session).ended(run)).toMatchObject({ state: 'finished' });
    expect(runtime.model.requests).toHaveLength(first + 2);
  });

  it('T10 X5 a compaction by hand ends with the reason while its bucket is away', async () => {
    const session = await opened();
    const test = TestSession.of(runtime, session);
    for (const text of ['one', 'two', 'three', 'four']) {
      const file = (await upload(session, `${text} ${'words '.repeat(500)}`)).body;
      expect(await test.ended(await send(session, text, file))).toMatchObject({ state: 'finished' });
    }
    await forgetContents(runtime.db, session);
    store.behave(away);
    const { run_seq: run } = await test.command(updates.compact);
    const ended = await test.ended(run);
    store.behave();
    expect(ended).toMatchObject({ state: 'error', error_code: 'CompactionFailed' });
    expect(ended.error_message).toMatch(/the store of attachments cannot be reached\. Try again/);
  });
});
