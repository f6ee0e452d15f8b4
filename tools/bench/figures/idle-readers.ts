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
import { cpuOf } from '../cpu.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { USER } from '../names.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';

const READERS = 10_000;
const SOAKED = 2_000;
const MEASURE_MS = 30_000;
/** Postgres counts the transactions of an idle connection up to ten seconds late. */
const SETTLE_MS = 12_000;
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

/** Transactions and milliseconds of CPU per second, of all processes. */
async function costs({ db, pids }: System, host: { pid: number }) {
  const read = async () => {
    // Connections report what they did after up to a second.
    const { rows } = await db.query<{ count: number }>(
      'SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = current_database()',
    );
    const postgres = cpuOf(pids().postgres, { children: true });
    return { at: now(), transactions: rows[0]!.count, host: cpuOf(host.pid), postgres };
  };
  const from = await read();
  await delay(MEASURE_MS);
  const to = await read();
  const perSecond = (key: 'transactions' | 'host' | 'postgres') => (to[key] - from[key]) / ((to.at - from.at) / 1_000);
  return { transactions: perSecond('transactions'), host: perSecond('host'), postgres: perSecond('postgres') };
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

/** Bytes of the host's heap: the minimum of several samples, which is the heap after a garbage collection. */
async function heapOf({ url }: { url: string }, forMs: number): Promise<number> {
  const samples: number[] = [];
  const until = now() + forMs;
  do {
    const text = await (await fetch(`${url}/metrics`)).text();
    samples.push(Number(/^nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1]));
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
