// POST /api/chat accepts bodies of many megabytes: endless bodies and many at once do no harm (slow ones: connections.test.ts).
import { ReadableStream, TextEncoderStream } from 'node:stream/web';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type HostProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { freePort, freshDatabase } from '../../tools/test-kit/servers.ts';
import { RawConnection } from '../attacks/raw.ts';

const MB = 1_024 ** 2;
const HEAD = 'POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nx-perdure-user: eve\r\n';

let host: HostProcess;
beforeAll(async () => {
  const servers = { databaseUrl: await freshDatabase(), address: `127.0.0.1:${await freePort()}`, namespace: 'none' };
  const processes = await processesOn(servers, 'http://127.0.0.1:1');
  host = await processes.host({});
});

/** An earlier message of 64 KiB with escapes, numbers and nesting. */
const earlier = JSON.stringify({
  id: 'm',
  role: 'assistant',
  parts: [{ type: 'text', text: '"Quoted"\n'.repeat(5_000) }, { n: Array.from({ length: 500 }, (_, at) => [at / 7]) }],
}).padEnd(65_535);

/** A body whose transcript has `megabytes` before its last message. Half of them are sent before `halfTime`. */
function bodyOf(megabytes: number, last: object, halfTime?: Promise<void>) {
  const pieces = async function* () {
    yield '{"id":"c","trigger":"submit-message","messages":[';
    for (let sent = 0; sent < megabytes * MB; sent += earlier.length + 1) {
      if (sent > (megabytes * MB) / 2) await halfTime;
      yield `${earlier},`;
    }
    yield `${JSON.stringify(last)}]}`;
  };
  return ReadableStream.from(pieces()).pipeThrough(new TextEncoderStream());
}

async function post(megabytes: number, last: object, halfTime?: Promise<void>): Promise<Response> {
  const body = bodyOf(megabytes, last, halfTime);
  const init = { method: 'POST', headers: { 'x-perdure-user': 'ada' }, body, duplex: 'half' };
  return fetch(`${host.url}/api/chat`, init as unknown as RequestInit);
}

async function residentMegabytes(): Promise<number> {
  const text = await (await fetch(`${host.url}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1]) / MB;
}

it('Q3 a hundred transcripts of 3 MiB at once are read in bounded memory, and others are served', async () => {
  await post(3, { role: 'user' });
  const before = await residentMegabytes();
  let most = 0;
  let slowest = 0;
  const { promise: halfTime, resolve: goOn } = Promise.withResolvers<void>();
  const over = new AbortController();
  const watched = (async () => {
    while (!over.signal.aborted) {
      const from = performance.now();
      most = Math.max(most, await residentMegabytes());
      slowest = Math.max(slowest, performance.now() - from);
      await delay(20);
    }
  })();
  const sent = Promise.all(Array.from({ length: 100 }, () => post(3, { role: 'user' }, halfTime)));
  // While all of them are half read.
  for (let probe = 0; probe < 3; probe += 1) expect(await residentMegabytes()).toBeGreaterThan(0);
  goOn();
  const answers = await sent;
  over.abort();
  await watched;
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([400]));
  expect(await answers[0]!.json()).toMatchObject({
    detail: expect.stringMatching(/^messages\[\d+\]\.id: expected an id/),
  });
  // All of them together have 300 MiB, and more as strings in memory.
  expect(most - before, 'megabytes').toBeLessThan(220);
  expect(slowest, 'milliseconds until a probe was answered').toBeLessThan(15_000);
});

it('Q3 a transcript over the limit is 413, by its Content-Length or once it exceeds the limit', async () => {
  const declared = await RawConnection.to(host.url);
  declared.write(`${HEAD}content-length: ${33 * MB}\r\n\r\n{`);
  await eventually(() => expect(declared.statuses).toEqual([413]));
  declared[Symbol.dispose]();

  const endless = await RawConnection.to(host.url);
  endless.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`);
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
  let sent = 0;
  while (endless.isOpen && endless.statuses.length === 0 && sent < 100) {
    endless.write(chunk);
    sent += chunk.length / MB;
    await delay(1);
  }
  await eventually(() => expect(endless.statuses).toEqual([413]));
  expect(sent, 'megabytes sent until the refusal').toBeGreaterThan(32);
  expect(sent, 'megabytes sent until the refusal').toBeLessThan(100);
  endless[Symbol.dispose]();
});

it('Q3 a last message over the limit for bodies is 413, whatever the limit for transcripts', async () => {
  const answer = await post(2, { id: 'm', role: 'user', parts: [{ type: 'text', text: 'x'.repeat(2 * MB) }] });
  expect([answer.status, await answer.json()]).toMatchObject([
    413,
    {
      code: 'TooLarge',
      detail: expect.stringMatching(/^messages\[\d+\]: expected at most 1048576 bytes \(PERDURE_MAX_BODY\)/),
    },
  ]);
});
