// Attachments in exports and imports, through HTTP, with contents in Postgres and in a bucket. Temporal is down.
import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { Contents } from '../../store/contents.ts';
import { S3Bucket, type S3Options } from '../../store/s3.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBucket } from '../../tools/test-kit/bucket.ts';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { answered, told } from '../rows/conversation.ts';
import { rows, Session } from '../rows/session.ts';
import { joined, type Line, parsed } from './json-lines.ts';

const MAX_FILE = 3 * 1024 ** 2;
const PNG = Buffer.from(PIXEL, 'base64');
const PDF = Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(120_000)]);
const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
describe.each(['Postgres', 'a bucket'])('with contents in %s', (place) => {
  let db: pg.Pool;
  let ada: TestCaller;
  let eve: TestCaller;
  let contents: Contents;
  /** Deletes what is unused, as a worker does after an hour. */
  const sweep = async () => {
    await db.query("UPDATE attachment_contents SET unused_since = '-infinity' WHERE unused_since IS NOT NULL");
    await contents.sweep(100);
  };
  /** What there is of attachments. */
  const stored = async () => ({
    contents: await rows(db, 'SELECT content_id FROM attachment_contents ORDER BY 1'),
    chunks: await rows(db, 'SELECT content_id, n FROM attachment_chunks ORDER BY 1, 2'),
    attachments: await rows(db, 'SELECT * FROM attachments ORDER BY 1, 2'),
    objects: (await objects?.())?.toSorted(),
  });
  let objects: (() => Promise<string[]>) | undefined;
  let s3: S3Options | undefined;
  beforeAll(async () => {
    const bucket = place === 'Postgres' ? undefined : await startBucket(scratchDir());
    afterFile(async () => bucket?.close());
    ({ objects, s3 } = bucket ?? {});
    const databaseUrl = await freshDatabase();
    const host = await startHost({ databaseUrl, clientOptions: { maxFileBytes: MAX_FILE, s3: bucket?.s3 } });
    db = patientPool(databaseUrl);
    afterFile(() => db.end());
    contents = new Contents(db, bucket?.s3);
    ada = host.as('ada');
    eve = host.as('eve');
  });

  async function attached(session: Session, bytes: Buffer, type: string, filename = '') {
    const init = { method: 'POST', body: bytes as BodyInit, headers: { 'content-type': type } };
    const response = await ada.fetch(`/api/sessions/${session.id}/attachments?filename=${filename}`, init);
    expect(response.status).toBe(201);
    return (await response.json()) as { attachment_id: string; url: string };
  }

  const exported = async (caller: TestCaller, id: string) => (await caller.fetch(`/api/sessions/${id}/export`)).text();

  async function imported(caller: TestCaller, body: string) {
    const response = await caller.fetch('/api/import', { method: 'POST', body });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  }

  async function read(caller: TestCaller, session: string, attachment: string): Promise<Buffer | number> {
    const response = await caller.fetch(`/api/sessions/${session}/attachments/${attachment}`);
    return response.ok ? Buffer.from(await response.arrayBuffer()) : response.status;
  }

  const filePart = (url: string, mediaType: string) => ({
    id: 'file',
    type: 'file',
    data: { type: 'file', mediaType, url },
  });

  /** A session with files in a message, in one that is hidden, and in a tool's output, and with one that is in none. */
  async function withFiles() {
    const session = await Session.at('chatting', db);
    const image = await attached(session, PNG, 'image/png', '%C3%9Cbersicht.png');
    const document = await attached(session, PDF, 'application/pdf');
    const note = await attached(session, Buffer.from('a note'), 'text/markdown', 'note.md');
    const unused = await attached(session, Buffer.from('unused'), 'text/plain');
    await told(session, 'one');
    const { run_seq } = (await session.say('', { id: 'two', parts: [filePart(document.url, 'application/pdf')] })) as {
      run_seq: number;
    };
    await answered(session, run_seq);
    await session.rewind('two');
    const run = await session.runWithCalls(['call_1'], [0, 50, 1]).catch(() => 0);
    expect(run).toBeGreaterThan(0);
    await session.beginTool(run, [0, 50, 1], 'call_1');
    const output = { content: [{ type: 'file', mediaType: 'text/markdown', url: note.url }] };
    await session.finishTool(run, [0, 50, 1], 'call_1', { data: { output } });
    await session.settleRun(run, 'aborted');
    await session.say('', { id: 'three', parts: [{ ...filePart(image.url, 'image/png'), id: 'image' }] });
    return { session, image, document, note, unused };
  }

  it('T7 T10 an export has the files that its messages refer to, an import gives them to its user, and exports the same', async () => {
    const { session, image, document, note, unused } = await withFiles();
    const text = await exported(ada, session.id);
    const lines = parsed(text);
    expect(lines.slice(0, 4)).toMatchObject([
      { kind: 'session' },
      {
        kind: 'attachment',
        id: image.attachment_id,
        digest: digestOf(PNG),
        media_type: 'image/png',
        filename: 'Übersicht.png',
        size: PNG.length,
      },
      { kind: 'content', data: PIXEL },
      { kind: 'attachment', id: document.attachment_id, size: PDF.length },
    ]);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThan(70_000);
    expect(text).not.toContain(unused.attachment_id);

    const { status, body } = await imported(eve, text);
    expect([status, body['detail']]).toEqual([201, undefined]);
    const copy = body['session_id']!;
    const own = [
      [image, PNG],
      [document, PDF],
      [note, Buffer.from('a note')],
    ] as const;
    for (const [{ attachment_id: id }, bytes] of own) expect(await read(eve, copy, id)).toEqual(bytes);
    expect(await read(eve, copy, unused.attachment_id)).toBe(404);
    expect(await read(ada, copy, image.attachment_id)).toBe(404);
    const withoutIds = (given: string) => given.replaceAll(/"id": "(imported:)?event:\d+"/g, '"id": "event"');
    expect(withoutIds(await exported(eve, copy))).toBe(withoutIds(text));

    expect((await ada.delete(`/api/sessions/${session.id}`)).status).toBe(204);
    await sweep();
    for (const [{ attachment_id: id }, bytes] of own) expect(await read(eve, copy, id)).toEqual(bytes);
    expect((await eve.delete(`/api/sessions/${copy}`)).status).toBe(204);
    await sweep();
    expect(await stored()).toMatchObject({ contents: [], chunks: [], attachments: [] });
    expect((await objects?.()) ?? []).toEqual([]);
  });

  it('T7 a file whose bytes are lost is left out, and its part stays', async () => {
    const { session, image, note } = await withFiles();
    const [lost] = await rows(db, 'SELECT content_id FROM attachments WHERE session_id = $1 AND attachment_id = $2', [
      ...[session.id, image.attachment_id],
    ]);
    const id = lost!['content_id'] as string;
    await db.query('DELETE FROM attachment_chunks WHERE content_id = $1', [id]);
    if (s3) await new S3Bucket(s3).remove(id);
    const text = await exported(ada, session.id);
    expect(parsed(text).filter(({ kind }) => kind === 'attachment')).toHaveLength(2);
    const copy = (await imported(eve, text)).body['session_id']!;
    expect(await read(eve, copy, image.attachment_id)).toBe(404);
    expect(await read(eve, copy, note.attachment_id)).toEqual(Buffer.from('a note'));
    expect(await exported(eve, copy)).toContain(image.url);
  });

  it('T7 T10 an import cannot attach the file of another user, or of another session', async () => {
    const { session, image } = await withFiles();
    const lines = parsed(await exported(ada, session.id));
    const without = lines.filter(({ kind }) => kind !== 'attachment' && kind !== 'content');
    for (const caller of [ada, eve]) {
      const { status, body } = await imported(caller, joined(without));
      expect(status).toBe(201);
      expect(await read(caller, body['session_id']!, image.attachment_id)).toBe(404);
    }
  });

  it('T7 T10 what is not seen of a file’s name is left out, as of an upload’s', async () => {
    const { session, image } = await withFiles();
    const lines = parsed(await exported(ada, session.id));
    lines[1]!['filename'] = '../photo\u202Egnp.exe';
    const { body } = await imported(eve, joined(lines));
    const sql = 'SELECT filename FROM attachments WHERE session_id = $1 AND attachment_id = $2';
    expect(await rows(db, sql, [body['session_id'], image.attachment_id])).toEqual([{ filename: 'photognp.exe' }]);
  });

  describe('an import is refused with the number of its line, and a sweep deletes what it has stored:', () => {
    let lines: Line[];
    beforeAll(async () => {
      const { session } = await withFiles();
      lines = parsed(await exported(ada, session.id));
    });
    const set = (at: number, change: Line) => (all: Line[]) => void Object.assign(all[at]!, change);
    const text = (of: string) => Buffer.from(of).toString('base64');

    // Line 2 is the image, 3 its content; 4 the document, 5 to 7 its content; 8 the note, 9 its content; 10 a message.
    it.each<[string, (lines: Line[]) => unknown, string, string]>([
      ['another digest', set(1, { digest: 'a'.repeat(64) }), 'InvalidLine', 'line 2.digest: expected the SHA-256'],
      ['a digest of another kind', set(1, { digest: 'abc' }), 'InvalidLine', 'line 2.digest: expected 64 hexadecimal'],
      ['fewer bytes', set(1, { size: 10 }), 'InvalidLine', 'line 2.size: expected the number of bytes'],
      ['more bytes', set(1, { size: 1_000_000 }), 'InvalidLine', 'line 2.size: expected the number of bytes'],
      ['no bytes', (all) => all.splice(2, 1), 'InvalidLine', 'line 2.size: expected the number of bytes'],
      ['no size', set(1, { size: 0 }), 'InvalidLine', 'line 2.size: expected'],
      ['too many bytes', set(3, { size: MAX_FILE + 1 }), 'TooLarge', `line 4.size: expected at most ${MAX_FILE} bytes`],
      ['another type', set(1, { media_type: 'text/html' }), 'InvalidLine', 'line 2.media_type: expected "image/png"'],
      [
        'a long type',
        set(1, { media_type: `text/${'x'.repeat(200)}` }),
        'InvalidLine',
        'line 2.media_type: expected at most 128',
      ],
      [
        'a type that sessions do not keep',
        (all) => {
          const bytes = Buffer.from([0x50, 0x4b, 0x03, 0x04, 0xff]);
          set(1, { size: 5, digest: digestOf(bytes), media_type: 'application/zip' })(all);
          set(2, { data: bytes.toString('base64') })(all);
        },
        'InvalidLine',
        'line 2.media_type: expected a PNG',
      ],
      ['content that is no base64', set(2, { data: 'a-b=' }), 'InvalidLine', 'line 3.data: expected base64'],
      [
        'content that breaks off',
        (all) => all.splice(6, 1),
        'InvalidLine',
        'line 4.size: expected the number of bytes',
      ],
      [
        'an id of something else',
        set(1, { id: 'msg_1' }),
        'InvalidLine',
        'line 2.id: expected the id of an attachment',
      ],
      [
        'a content of somebody',
        set(1, { content_id: 'att_1' }),
        'InvalidLine',
        'line 2.content_id: expected no such field',
      ],
      [
        'an attachment after a message',
        (all) => all.push(...all.splice(1, 2)),
        'WrongOrder',
        ': expected a message or a part: attachments come before',
      ],
      [
        'an attachment that no part refers to',
        (all) => {
          const attachment = {
            ...all[1]!,
            id: 'att_x',
            filename: null,
            media_type: 'text/plain',
            size: 1,
            digest: digestOf(Buffer.from('x')),
          };
          all.splice(1, 0, attachment, { kind: 'content', data: text('x') });
          // Null refers to none.
          const tool = all.find(({ tool_state: state }) => state === 'output-available')!;
          (tool['data'] as { output: { content: unknown[] } }).output.content.push({ url: null });
        },
        'ForeignId',
        'line 2.id: expected the id of an attachment that a part refers to',
      ],
      [
        'an attachment twice',
        (all) => {
          const attachment = { ...all[1]!, media_type: 'text/plain', size: 1, digest: digestOf(Buffer.from('x')) };
          all.splice(7, 0, attachment, { kind: 'content', data: text('x') });
        },
        'DuplicateId',
        'line 8.id: expected another one',
      ],
      [
        'the same bytes twice',
        (all) => all.splice(7, 0, { ...all[1]!, id: 'att_x' }, all[2]!),
        'DuplicateId',
        'line 8.digest: expected another one',
      ],
      ['what comes long after it', (all) => set(all.length - 1, { index: -1 })(all), 'InvalidLine', '.index: expected'],
    ])('T7 T10 %s', async (_what, change, code, words) => {
      const changed = structuredClone(lines);
      change(changed);
      const before = await stored();
      const { status, body } = await imported(eve, joined(changed));
      expect([status, body['code'], body['detail']]).toEqual([
        code === 'TooLarge' ? 413 : 400,
        code,
        expect.stringContaining(words),
      ]);
      await sweep();
      expect(await stored()).toEqual(before);
    });
  });
});
