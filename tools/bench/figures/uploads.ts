// What uploads of files add to a host's memory, in both stores.
import { randomBytes, randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startBucket } from '../../test-kit/bucket.ts';
import { forgetPeak, memoryOf, peakMemoryOf } from '../cpu.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { COLLECTING } from '../many.ts';
import { USER } from '../names.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';

const SIZE = 20 * 1024 ** 2;
/** Small uploads after which the code is compiled. */
const WARM_UP = 100;
const SMALL = 10 * 1024;
/** Hosts: what one has given back to its allocator stays in its memory. */
const TIMES = 3;
const SETTLE_MS = 2_000;

/** How files are sent. */
interface Sending {
  count: number;
  /** Of each, in bytes. */
  size: number;
  /** In forms, instead of as bodies. */
  inForms: boolean;
}

/** Uploads that many new files at once. */
async function upload(url: string, session: string, { count, size, inForms }: Sending): Promise<void> {
  const head = Buffer.from('%PDF-1.7\n');
  const files = Array.from({ length: count }, () => Buffer.concat([head, randomBytes(size - head.length)]));
  const type = 'application/pdf';
  const sent = files.map((file) => {
    const form = new FormData();
    form.set('file', new Blob([file], { type }));
    const headers = { 'x-perdure-user': USER, ...(!inForms && { 'content-type': type }) };
    return fetch(`${url}/api/sessions/${session}/attachments`, {
      method: 'POST',
      headers,
      body: inForms ? form : file,
    });
  });
  for (const response of await Promise.all(sent)) {
    if (response.status !== 201) throw new Error(`an upload got ${response.status}: ${await response.text()}`);
    await response.body?.cancel();
  }
}

/** By how many megabytes the memory of a new host exceeds that at rest while its first large files are uploaded. */
async function growth(start: () => ReturnType<typeof startHost>, session: string, sending: Sending): Promise<number> {
  const host = await start();
  try {
    for (let n = 0; n < WARM_UP; n += 4) await upload(host.url, session, { ...sending, count: 4, size: SMALL });
    process.kill(host.pid, 'SIGWINCH');
    await delay(SETTLE_MS);
    const before = memoryOf(host.pid);
    forgetPeak(host.pid);
    await upload(host.url, session, sending);
    return (peakMemoryOf(host.pid) - before) / 1024 ** 2;
  } finally {
    await host.stop();
  }
}

async function measure(
  { client }: System,
  start: () => ReturnType<typeof startHost>,
  { place, inForms }: { place: string; inForms: boolean },
): Promise<Result[]> {
  const session = await client.open();
  const one: number[] = [];
  const four: number[] = [];
  for (let n = 0; n < TIMES; n += 1) {
    one.push(await growth(start, session, { count: 1, size: SIZE, inForms }));
    four.push(await growth(start, session, { count: 4, size: SIZE, inForms }));
  }
  const name = `an upload of 20 MiB${inForms ? ' in a form' : ''} to ${place}: memory of the host over rest, at its highest`;
  return [
    { name, value: median(one), unit: 'MB', target: { atMost: 10 }, detail: spread(one) },
    { name: 'the same of four at once', value: median(four), unit: 'MB', detail: spread(four) },
  ];
}

/** Memory of a host that receives files, for Postgres and for a bucket. */
export const uploads: Figure = {
  name: 'uploads',
  onRequest: { withinMs: 600_000 },
  measure: async ({ system }: Bench) => {
    await using stops = new AsyncDisposableStack();
    const dir = path.join(tmpdir(), `perdure-bench-uploads-${randomUUID()}`);
    stops.defer(() => rm(dir, { recursive: true, force: true }));
    const bucket = await startBucket(path.join(dir, 'bucket'));
    stops.defer(bucket.close);
    const { url, accessKeyId, secretAccessKey } = bucket.s3;
    const results: Result[] = [];
    for (const [place, settings] of [
      ['Postgres', {}],
      [
        'a bucket',
        {
          PERDURE_S3_URL: url,
          PERDURE_S3_ACCESS_KEY_ID: accessKeyId,
          PERDURE_S3_SECRET_ACCESS_KEY: secretAccessKey,
        },
      ],
    ] as const) {
      const start = () => startHost(system, path.join(dir, place), { ...COLLECTING, ...settings });
      for (const inForms of [false, true]) results.push(...(await measure(system, start, { place, inForms })));
    }
    return results;
  },
};
