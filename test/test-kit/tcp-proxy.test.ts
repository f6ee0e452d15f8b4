import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { latency, packetLoss, slowStatements, startTcpProxy } from '../../tools/test-kit/tcp-proxy.ts';

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const close of closing.splice(0)) await close();
});
const sockets: Socket[] = [];
const closing: (() => Promise<unknown>)[] = [];

/** An echo server behind a proxy. */
async function echo() {
  const server = createServer((socket) => socket.pipe(socket).on('error', () => {})).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy = await startTcpProxy({ port: (server.address() as AddressInfo).port });
  closing.push(
    () => proxy.close(),
    async () => void server.close(),
  );
  const client = createConnection({ host: proxy.host, port: proxy.port });
  sockets.push(client);
  await once(client, 'connect');
  return { proxy, client };
}

async function roundTrip(client: Socket, text: string): Promise<{ text: string; ms: number }> {
  const began = performance.now();
  client.write(text);
  let back = '';
  while (back.length < text.length) back += String((await once(client, 'data'))[0]);
  return { text: back, ms: performance.now() - began };
}

it('Q1 the proxy passes everything on in order, also data larger than its buffer', async () => {
  const { proxy, client } = await echo();
  proxy.holdBack = latency(() => Math.random() * 3);
  const text = Array.from({ length: 300_000 }, (_, n) => `${n} `).join('');
  expect((await roundTrip(client, text)).text).toBe(text);
});

it('Q1 the proxy delays, stalls and resets', async () => {
  const { proxy, client } = await echo();
  proxy.holdBack = latency(() => 60);
  expect((await roundTrip(client, 'slow')).ms).toBeGreaterThanOrEqual(110);
  proxy.holdBack = undefined;
  proxy.stall();
  const stalled = roundTrip(client, 'stalled');
  expect(
    await Promise.race([stalled, once(client, 'data', { signal: AbortSignal.timeout(150) }).catch(() => 'nothing')]),
  ).toBe('nothing');
  proxy.resume();
  expect((await stalled).text).toBe('stalled');
  client.on('error', () => {});
  const closed = new Promise((resolve) => client.once('close', resolve));
  expect(proxy.reset()).toBe(1);
  await closed;
});

it('Q1 only statements are delayed, and lost packets are delayed like TCP retransmissions', () => {
  const hold = slowStatements(() => 1_000);
  expect(hold(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), 'up')).toBe(0);
  expect(hold(Buffer.from('p'), 'up')).toBe(0);
  expect(hold(Buffer.from('Q'), 'up')).toBe(1_000);
  expect(hold(Buffer.from('P'), 'up')).toBe(1_000);
  expect(hold(Buffer.from('Q'), 'down')).toBe(0);
  expect(packetLoss(0)(Buffer.alloc(5_000), 'up')).toBe(0);
  expect(packetLoss(0.5, () => 0.4)(Buffer.alloc(1), 'up')).toBe(600);
});
