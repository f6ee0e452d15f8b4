// Exports of attachments in a bucket that is away, not configured, or has lost them. Temporal is down.
import { mkdir, readdir, readlink } from 'node:fs/promises';
import type pg from 'pg';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { refusing, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { Session } from '../rows/session.ts';

let databaseUrl: string;
let db: pg.Pool;
let store: TestStore;
let host: TestHost;
/** A session with two files. */
let session: Session;
let files: { attachment_id: string; url: string }[];
beforeAll(async () => {
  databaseUrl = await freshDatabase();
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
  store = await startStore();
  afterFile(store.close);
  host = await startHost({ databaseUrl, clientOptions: { s3: store.s3 } });
});

beforeEach(async () => {
  store.behave();
  store.objects.clear();
  session = await Session.at('chatting', db);
  files = [];
  for (const body of ['the first file', 'the second file']) {
    const init = { method: 'POST', body, headers: { 'content-type': 'text/plain' } };
    const response = await host.as('ada').fetch(`/api/sessions/${session.id}/attachments`, init);
    files.push((await response.json()) as (typeof files)[0]);
  }
  const parts = files.map(({ url }, n) => ({
    id: `file${n}`,
    type: 'file',
    data: { type: 'file', mediaType: 'text/plain', url },
  }));
  await session.say('look', { parts });
});

async function exported(from = host): Promise<{ status: number; text: string }> {
  const response = await from.as('ada').fetch(`/api/sessions/${session.id}/export`);
  return { status: response.status, text: await response.text() };
}
const filesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; id: string })
    .flatMap(({ kind, id }) => (kind === 'attachment' ? [id] : []));
const ids = () => files.map(({ attachment_id: id }) => id);
const unavailable = { status: 503, text: expect.stringContaining('"code":"Unavailable"') as string };

it('T7 T10 while its bucket is away or breaks off, an export is 503, and whole afterwards', async () => {
  store.behave(refusing(503));
  expect(await exported()).toEqual(unavailable);
  store.behave((_, response) => {
    response.writeHead(200, { 'content-length': '100' });
    response.write('the first', () => response.destroy());
    return true;
  });
  expect(await exported()).toEqual(unavailable);
  store.behave();
  const { status, text } = await exported();
  expect([status, filesOf(text)]).toEqual([200, ids()]);
});

it('T7 T10 by a host without the settings of its bucket, an export is 503, and not without files', async () => {
  const other = await startHost({ databaseUrl });
  expect(await exported(other)).toEqual(unavailable);
});

it('T7 T10 a file that is lost, shorter or another one is left out of an export, and the log says so', async () => {
  const [first, second] = [...store.objects.keys()] as [string, string];
  const changes = [
    () => store.objects.delete(first),
    () => store.objects.set(first, Buffer.from('the first')),
    () => store.objects.set(first, Buffer.from('the third file')),
    () => store.objects.set(first, Buffer.from('the first file and more')),
  ];
  for (const change of changes) {
    host.logs.length = 0;
    change();
    const { status, text } = await exported();
    expect([status, filesOf(text)]).toEqual([200, [files[1]!.attachment_id]]);
    const told = host.logs.filter(({ msg }) => msg === 'an attachment is lost: an export is without it');
    expect(told).toMatchObject([{ session: session.id, attachment: files[0]!.attachment_id }]);
  }
  store.objects.delete(second);
  expect(filesOf((await exported()).text)).toEqual([]);
});

it('T7 T10 temporary files have no names, and are closed also if what they are for fails', async () => {
  const folder = scratchDir();
  await mkdir(folder);
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  try {
    // Lost: its digest is another one.
    store.objects.set([...store.objects.keys()][0]!, Buffer.from('the third file'));
    expect(await exported()).toMatchObject({ status: 200 });
    async function* broken() {
      yield Buffer.from('half a fi');
      throw new Error('broken off');
    }
    const file = { content: broken(), mediaType: 'text/plain' };
    await expect(host.client.attach('ada', session.id, file)).rejects.toThrow('broken off');
    await expect(host.client.importSession('ada', broken())).rejects.toThrow('broken off');
    expect(await readdir(folder)).toEqual([]);
    const open = await Promise.all(
      (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    );
    expect(open.filter((each) => each.startsWith(folder))).toEqual([]);
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
});
