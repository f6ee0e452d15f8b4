import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf } from '../cpu.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import type { System } from '../servers.ts';
import { rest, turn } from '../turn.ts';

/** Size of a worker's workflow cache. */
const SESSIONS = 1_000;
const AT_ONCE = 16;
/** Warm-up turns, so that the worker's code is compiled. */
const WARM_UP = 100;
const SETTLE_MS = 2_000;
const WAKES = 20;

/** Opens sessions and runs one turn in each. */
async function openIdle(system: System, count: number): Promise<string[]> {
  const ids: string[] = [];
  let begun = 0;
  const open = async () => {
    while (begun < count) {
      begun += 1;
      const id = await system.client.open();
      await turn(system, id);
      ids.push(id);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, open));
  return ids;
}

/** The idle worker's memory and the database's size, in bytes. */
async function sizes({ db, pids }: System): Promise<{ worker: number; database: number }> {
  await delay(SETTLE_MS);
  const { rows } = await db.query<{ size: number }>('SELECT pg_database_size(current_database()) AS size');
  return { worker: memoryOf(pids().worker), database: rows[0]!.size };
}

/** Times of a plain turn in sessions that are cached, evicted and closed. */
async function wakes({ system }: Bench, cached: string[], evicted: string[]): Promise<Result[]> {
  const samples = { cached: [] as number[], evicted: [] as number[], closed: [] as number[] };
  for (let n = 0; n < WAKES; n += 1) {
    samples.cached.push((await turn(system, cached.at(-1 - n)!)).total);
    await rest();
    samples.evicted.push((await turn(system, evicted[n]!)).total);
    await rest();
    const closed = cached.at(-1 - WAKES - n)!;
    await system.client.closeSession(closed);
    await rest();
    samples.closed.push((await turn(system, closed)).total);
    await rest();
  }
  return Object.entries(samples).map(([name, times]) => ({
    name: `plain turn that wakes a session: ${name}`,
    value: median(times),
    unit: 'ms',
    detail: spread(times),
  }));
}

/** Cost of idle sessions: as many as the cache holds, then as many again, which evict them. */
export const idle: Figure = {
  name: 'idle',
  measure: async (bench) => {
    const { system } = bench;
    await system.restartWorker();
    await openIdle(system, WARM_UP);
    const empty = await sizes(system);
    const first = await openIdle(system, SESSIONS);
    const full = await sizes(system);
    const second = await openIdle(system, SESSIONS);
    const fuller = await sizes(system);
    const each = (bytes: number) => bytes / SESSIONS / 1024;
    return [
      { name: 'idle session in the worker, cached', value: each(full.worker - empty.worker), unit: 'KB' },
      { name: 'idle session in the worker, evicted', value: each(fuller.worker - full.worker), unit: 'KB' },
      { name: 'idle session in Postgres, one turn', value: each(full.database - empty.database), unit: 'KB' },
      ...(await wakes(bench, second, first)),
    ];
  },
};
