// Attacks at the level of the connection: slow, endless, malformed and too many requests, against a host process with short
// time-outs. Meanwhile it answers other clients.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { type HostProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { freePort, freshDatabase } from '../../tools/test-kit/servers.ts';
import { RawConnection } from './raw.ts';

const REQUEST_MS = patient(1_000);
const READER_MS = patient(1_000);
const CONNECTIONS = 60;
/** Requests that a connection may have in progress. */
const PIPELINED = 100;
const MB = 1_024 ** 2;

let host: HostProcess;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  // No request here needs Temporal.
  const servers = { databaseUrl, address: `127.0.0.1:${await freePort()}`, namespace: 'none' };
  host = await (
    await processesOn(servers, 'http://127.0.0.1:1')
  ).host({
    PERDURE_REQUEST_TIMEOUT: `${REQUEST_MS}ms`,
    PERDURE_READER_TIMEOUT: `${READER_MS}ms`,
    PERDURE_MAX_CONNECTIONS: String(CONNECTIONS),
  });
});

const open: RawConnection[] = [];
afterEach(() => {
  for (const connection of open.splice(0)) connection[Symbol.dispose]();
});
async function connected(): Promise<RawConnection> {
  const connection = await RawConnection.to(host.url);
  open.push(connection);
  return connection;
}

/** Sends the text and waits until the connection is closed or has an answer. */
async function answered(text: string): Promise<RawConnection> {
  const connection = await connected();
  connection.write(text);
  await Promise.race([connection.closed, eventually(() => expect(connection.statuses).not.toEqual([]))]);
  return connection;
}

/** Other clients are served meanwhile: a probe, and a read of the database. */
async function expectServed(): Promise<void> {
  expect((await fetch(`${host.url}/healthz`)).status).toBe(200);
  expect((await host.as('ada').get('/api/sessions')).status).toBe(200);
}

/** The memory of the host in megabytes. */
async function megabytes(): Promise<number> {
  const text = await (await fetch(`${host.url}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1]) / MB;
}

/** Whether the host has a connection open: on Linux the state of an established one is 01 in /proc/net/tcp. */
function isOpenAtHost({ localPort }: RawConnection): boolean {
  const address = (port: number) => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const established = `${address(Number(new URL(host.url).port))} ${address(localPort)} 01`;
  return readFileSync('/proc/net/tcp', 'utf8').includes(established);
}

const CHAT = 'POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nx-perdure-user: eve\r\n';
const HEAD = 'POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nx-perdure-user: eve\r\n';

describe('a slow client', () => {
  it('Q3 is disconnected when its request is not complete in time: headers, body, or nothing sent', async () => {
    const dripping = new AbortController();
    const drip = async (start: string, byte: string) => {
      const connection = await connected();
      connection.write(start);
      const dripped = (async () => {
        while (connection.isOpen && !dripping.signal.aborted) {
          connection.write(byte);
          await delay(50);
        }
      })();
      return { connection, dripped };
    };
    const slow = await Promise.all([
      drip('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n', 'x'),
      drip('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n', 'a: b\r\n'),
      drip(`${HEAD}content-length: 1000\r\n\r\n`, ' '),
      drip(`${HEAD}transfer-encoding: chunked\r\n\r\n`, '1\r\n \r\n'),
      drip(`${CHAT}transfer-encoding: chunked\r\n\r\nd\r\n{"messages":[\r\n`, '3\r\n{},\r\n'),
      drip('', ''),
      drip('G', 'E'),
    ]);
    await expectServed();
    // Without a limit of ours it is five minutes.
    await Promise.all(slow.map(({ connection }) => connection.closed));
    dripping.abort();
    await Promise.all(slow.map(({ dripped }) => dripped));
    for (const { connection } of slow) for (const status of connection.statuses) expect([400, 408]).toContain(status);
  });

  it('Q3 that does not read its responses is disconnected, and the unsent data is not kept in memory', async () => {
    const before = await megabytes();
    const ask = async () => {
      const connection = await connected();
      connection.pause();
      connection.write('GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(PIPELINED));
      // A table that changes while it is read may lack a row.
      await eventually(() => expect(isOpenAtHost(connection)).toBe(true));
      return connection;
    };
    const greedy = await Promise.all(Array.from({ length: CONNECTIONS / 3 }, ask));
    await delay(READER_MS / 2);
    await expectServed();
    // All responses share one copy of the file, which has 1.4 MB.
    expect((await megabytes()) - before, 'megabytes').toBeLessThan(200);
    // A client that does not read does not see that its connection is closed.
    await eventually(() => expect(greedy.filter(isOpenAtHost)).toEqual([]));
    const received = await Promise.all(greedy.map((connection) => connection.readToEnd()));
    // What was in the kernel's buffers; not a tenth of what was requested.
    for (const bytes of received) expect(bytes / MB, 'megabytes').toBeLessThan((1.4 * PIPELINED) / 10);
  });
});

describe('an endless body', () => {
  it('Q3 is refused by its Content-Length, or once it exceeds the limit', async () => {
    const declared = await answered(`${HEAD}content-length: ${100 * MB}\r\n\r\n{`);
    expect(declared.statuses).toEqual([413]);
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
    const before = await megabytes();
    const endless = await connected();
    endless.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`);
    let sent = 0;
    while (endless.isOpen && sent < 200) {
      endless.write(chunk);
      sent += chunk.length / MB;
      await delay(1);
    }
    await expectServed();
    await endless.closed;
    expect(sent, 'megabytes until the connection was closed').toBeLessThan(200);
    expect((await megabytes()) - before, 'megabytes').toBeLessThan(100);
  });
});

describe('a body that is refused before its end', () => {
  it.each([
    ['not JSON', 400, `${CHAT}content-length: ${MB}\r\n\r\n`, `{x${' '.repeat(MB - 2)}`],
    ['nested too deeply', 400, `${CHAT}content-length: ${MB}\r\n\r\n`, `{"x":${'['.repeat(MB - 5)}`],
    [
      'too large without a Content-Length',
      413,
      `${HEAD}transfer-encoding: chunked\r\n\r\n`,
      `${`10000\r\n${' '.repeat(0x10000)}\r\n`.repeat(24)}0\r\n\r\n`,
    ],
  ])('Q3 %s leaves the connection usable: behind a proxy, others share it', async (_what, status, head, body) => {
    const connection = await answered(head + body);
    expect(connection.statuses).toEqual([status]);
    for (let later = 1; later <= 10; later++) {
      connection.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
      await Promise.race([connection.closed, eventually(() => expect(connection.statuses).toHaveLength(1 + later))]);
      expect(connection.isOpen).toBe(true);
      await delay(80);
    }
  });
});

describe('large responses', () => {
  it('Q3 are split into pages of some megabytes, so that many at once fit into memory', async () => {
    const greedy = host.as('greedy');
    const session = (await greedy.post('/api/sessions', {})).body.session.session_id as string;
    const text = 'é'.repeat(125_000);
    const ids = Array.from({ length: 40 }, (_, at) => `m${at}`);
    for (const id of ids) await greedy.post(`/api/sessions/${session}/messages`, { id, text });
    const ask = async (cursor: string) => {
      const response = await fetch(`${host.url}/api/sessions/${session}/messages?limit=200${cursor}`, {
        headers: { 'x-perdure-user': 'greedy' },
      });
      const body = await response.text();
      expect(body.length).toBeLessThan(9 * MB);
      return JSON.parse(body) as { items: { id: string }[]; next: string | null };
    };
    const found: string[] = [];
    for (let cursor = ''; ;) {
      const { items, next } = await ask(cursor);
      found.unshift(...items.map((item) => item.id));
      if (next === null) break;
      cursor = `&before=${next}`;
    }
    expect(found).toEqual(ids);
    const upwards = await ask('&after=m0');
    expect(upwards.items[0]!.id).toBe('m1');
    expect(upwards.next).toBe(upwards.items.at(-1)!.id);
  });
});

describe('a malformed request', () => {
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
  it.each([
    [
      'Content-Length and then chunked encoding',
      `${HEAD}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    ],
    [
      'chunked encoding and then Content-Length',
      `${HEAD}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n${smuggled}`,
    ],
    ['two lengths', `${HEAD}content-length: 2\r\ncontent-length: 3\r\n\r\n{}${smuggled}`],
    ['a length with a sign', `${HEAD}content-length: +2\r\n\r\n{}${smuggled}`],
    ['a list as length', `${HEAD}content-length: 2, 3\r\n\r\n{}${smuggled}`],
    ['a negative length', `${HEAD}content-length: -1\r\n\r\n${smuggled}`],
    ['an unknown transfer coding', `${HEAD}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['chunks that are not the last coding', `${HEAD}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a space before the colon', `${HEAD}content-length : 2\r\n\r\n{}${smuggled}`],
    ['a folded header', `${HEAD}x: a\r\n transfer-encoding: chunked\r\n\r\n${smuggled}`],
    ['no host', 'GET /api/sessions HTTP/1.1\r\n\r\n'],
    ['a chunk without a valid size', `${HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n${smuggled}`],
    ['an unknown protocol version', 'GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n'],
    ['an unknown method', 'SESSIONS / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])('Q3 with %s is 400, and a request smuggled in it gets no response', async (_what, text) => {
    const connection = await answered(text);
    await connection.closed;
    expect(connection.statuses).toEqual([400]);
    expect(connection.received).not.toContain('smuggled');
  });

  it('Q3 with oversized headers is 431', async () => {
    const get = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n';
    const wide = await answered(`${get}x: ${'a'.repeat(20_000)}\r\n\r\n`);
    const many = await answered(`${get}${'abcdef: b\r\n'.repeat(10_000)}\r\n`);
    const long = await answered(`GET /healthz?${'a'.repeat(20_000)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    // If unread data is left when the connection is closed, a reset may discard the response.
    for (const { statuses, closed } of [wide, many, long]) {
      await closed;
      expect(statuses.filter((status) => status !== 431)).toEqual([]);
    }
    const wider = await answered(`${get}x: ${'a'.repeat(16_500)}\r\n\r\n`);
    expect(wider.statuses).toEqual([431]);
    expect((await answered(`${get}${'a: b\r\n'.repeat(100)}\r\n`)).statuses).toEqual([200]);
  });

  it.each([
    ['TRACE', 'TRACE /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
    ['CONNECT', 'CONNECT 127.0.0.1:5432 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
    ['an upgrade', 'GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'],
    [
      'an absolute URL of another host as target',
      'GET http://evil.example/api/sessions HTTP/1.1\r\nHost: evil.example\r\n\r\n',
    ],
    ['an invalid target', 'GET http://[ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
    ['an expectation', `${HEAD}content-length: 2\r\nexpect: the-unexpected\r\n\r\n{}`],
    ['an older protocol', 'GET /api/sessions HTTP/1.0\r\n\r\n'],
  ])('Q3 with %s does no harm', async (_what, text) => {
    const connection = await answered(text);
    for (const status of connection.statuses) expect(status === 501 ? 400 : status).toBeLessThan(500);
    expect(connection.received).not.toMatch(/session_id|root:/);
    await expectServed();
  });
});

describe('many at once', () => {
  it('Q3 pipelined requests are answered in order, and others are served meanwhile', async () => {
    const connection = await connected();
    for (const count of [PIPELINED, 2 * PIPELINED]) {
      connection.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(PIPELINED));
      await expectServed();
      await eventually(() => expect(connection.statuses).toHaveLength(count));
    }
    expect(new Set(connection.statuses)).toEqual(new Set([200]));
  });

  it('Q3 more pipelined requests than a connection may have in progress close it, and no other one', async () => {
    const connection = await connected();
    connection.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(10 * PIPELINED));
    await expectServed();
    await connection.closed;
  });

  it('Q3 the number of connections is limited; idle ones are closed and make room for new ones', async () => {
    const many = await Promise.all(Array.from({ length: CONNECTIONS + 20 }, connected));
    const refused = () => many.filter((connection) => !connection.isOpen).length;
    await eventually(() => expect(refused()).toBeGreaterThanOrEqual(20));
    await eventually(expectServed);
    await Promise.all(many.map((connection) => connection.closed));
    await expectServed();
  });

  it('Q3 after all these attacks the host has logged no error and has not restarted', async () => {
    const lines = await host.logs();
    expect(lines.filter((line) => line.level >= 50)).toEqual([]);
    process.kill(host.pid, 0);
    await expectServed();
  });
});
