// The load of readers of idle sessions on a host and Postgres.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../../../domain/ids.ts';
import { AGENT } from '../agents.ts';
import { type Child, startChild } from '../child.ts';
import { now } from '../clock.ts';
import { costs, SETTLE_MS } from '../costs.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { usedHeap } from '../heap.ts';
import { startHost } from '../host-process.ts';
import { USER } from '../names.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';

const READERS = 10_000;
const SOAKED = 2_000;
const MESSAGES = 30;
const MOST_MINUTES = 55;
const ROOM = { PERDURE_MAX_READERS: '20000', PERDURE_MAX_CONNECTIONS: '20000' };

interface Place {
  host: { pid: number; url: string };
  readers: Child;
}

/** A host and a process that reads from it. */
async function withHost<T>(system: System, use: (place: Place) => Promise<T>): Promise<T> {
  await using stops = new AsyncDisposableStack();
  const dir = path.join(tmpdir(), `perdure-bench-readers-${randomUUID()}`);
  stops.defer(() => rm(dir, { recursive: true, force: true }));
  const host = await startHost(system, dir, ROOM);
  stops.defer(async () => void (await host.stop()));
  const readers = await startChild('event-readers');
  stops.defer(() => readers.stop());
  return await use({ host, readers });
}

/** Opens a reader for each of `count` new sessions. */
async function openReaders({ db }: System, { host, readers }: Place, count: number): Promise<void> {
  const sessions = Array.from({ length: count }, () => newId('ses'));
  await db.query(`SELECT open_session(id, $2, $3, NULL, NULL, '{}', NULL) FROM unnest($1::text[]) AS id`, [
    ...[sessions, USER, AGENT],
  ]);
  await readers.call('open', { port: Number(new URL(host.url).port), sessions, user: USER });
}

/** Milliseconds until the host has accepted a message, measured one after the other. */
async function acceptTimes({ client }: System, url: string): Promise<number[]> {
  const session = await client.open();
  const times: number[] = [];
  for (let n = 0; n < MESSAGES; n += 1) {
    const text = messageOf({ key: randomUUID(), chunks: 1, pace: 0 });
    const headers = { 'content-type': 'application/json', 'x-perdure-user': USER };
    const from = now();
    const response = await fetch(`${url}/api/sessions/${session}/messages`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ id: newId('msg'), text }),
    });
    times.push(now() - from);
    if (response.status !== 202) throw new Error(`a message got ${response.status}: ${await response.text()}`);
    await response.body?.cancel();
    await delay(200);
  }
  return times;
}

async function measureIdle({ system }: Bench): Promise<Result[]> {
  return withHost(system, async (place) => {
    const { host, readers } = place;
    await acceptTimes(system, host.url);
    const usual = await acceptTimes(system, host.url);
    await delay(SETTLE_MS);
    const quiet = await costs(system, host);
    const from = now();
    await openReaders(system, place, READERS);
    const joining = now() - from;
    await delay(SETTLE_MS);
    const idle = await costs(system, host);
    const beside = await acceptTimes(system, host.url);
    const lost = await lostPointerTimes(system, place);
    const { closed } = await readers.call<{ closed: number }>('counts');
    const name = `${READERS.toLocaleString('en')} idle readers of one host`;
    const more = (key: keyof typeof idle) => idle[key] - quiet[key];
    return [
      { name: `${name}: transactions a second`, value: more('transactions'), unit: '', target: { atMost: 20 } },
      { name: `${name}: CPU of the host`, value: more('host') / 10, unit: '% of a core' },
      { name: `${name}: CPU of Postgres`, value: more('postgres') / 10, unit: '% of a core' },
      { name: `${name}: until all have read`, value: joining / 1_000, unit: 's' },
      { name: `${name}: disconnected`, value: closed, unit: '', target: { atMost: 0 } },
      {
        name: `${name}: a change without a pointer is received, slowest`,
        value: Math.max(...lost),
        unit: 'ms',
        target: { atMost: 1_000 },
        detail: spread(lost),
      },
      {
        name: `${name}: a message is accepted, p50 (floor: without them)`,
        value: median(beside),
        unit: 'ms',
        floor: median(usual),
        target: { overFloor: 5 },
        detail: spread(beside),
      },
    ];
  });
}

/** Milliseconds until a reader has received a change whose pointer was lost, one after the other. */
async function lostPointerTimes({ db }: System, { readers }: Place): Promise<number[]> {
  const { rows } = await db.query<{ session_id: string }>(
    `SELECT session_id FROM sessions WHERE phase = 'chatting' AND user_id = $1 ORDER BY session_id LIMIT $2`,
    [USER, MESSAGES],
  );
  const events = async () => (await readers.call<{ events: number }>('counts')).events;
  const times: number[] = [];
  for (const { session_id: session } of rows) {
    const before = await events();
    const from = now();
    await db.query('SELECT write_phase($1, $2)', [session, 'start_build']);
    while ((await events()) === before) await delay(5);
    times.push(now() - from);
    await delay(Math.random() * 700);
  }
  return times;
}

/** Bytes of the host's heap: the minimum of several samples, which is the heap after a garbage collection. */
async function heapOf({ url }: { url: string }, forMs: number): Promise<number> {
  const samples: number[] = [];
  const until = now() + forMs;
  do {
    samples.push(await usedHeap(url));
    await delay(500);
  } while (now() < until);
  return Math.min(...samples);
}

async function measureSoak({ system, minutes }: Bench): Promise<Result[]> {
  if (minutes > MOST_MINUTES) throw new Error(`--minutes: expected at most ${MOST_MINUTES}`);
  return withHost(system, async (place) => {
    await openReaders(system, place, SOAKED);
    await delay(SETTLE_MS);
    const windowMs = minutes * 12_000;
    const before = await heapOf(place.host, windowMs);
    await delay(minutes * 60_000 - 2 * windowMs);
    const after = await heapOf(place.host, windowMs);
    const { closed } = await place.readers.call<{ closed: number }>('counts');
    const name = `${SOAKED.toLocaleString('en')} idle readers for ${minutes} min`;
    return [
      {
        name: `${name}: growth of the host's heap`,
        value: (after - before) / 1024 ** 2,
        unit: 'MB',
        target: { atMost: 5 },
        detail: `${(before / 1024 ** 2).toFixed(1)} to ${(after / 1024 ** 2).toFixed(1)} MB`,
      },
      { name: `${name}: disconnected`, value: closed, unit: '', target: { atMost: 0 } },
    ];
  });
}

/** Ten thousand readers of as many sessions. */
export const idleReaders: Figure = {
  name: 'idle-readers',
  onRequest: { withinMs: 300_000 },
  measure: measureIdle,
};

/** Whether the host's heap grows while readers receive only keep-alives, for `--minutes`. */
export const soak: Figure = {
  name: 'soak',
  onRequest: { withinMs: (MOST_MINUTES + 3) * 60_000 },
  measure: measureSoak,
};
