import type { Bench, Figure, Result } from '../figure.ts';
import { openMany, sizes } from '../many.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';
import { rest, turn } from '../turn.ts';

/** Turns after which a worker's heaps have their usual size and its code is compiled. */
const WARM_UP = 300;
const SESSIONS = 1_000;
/** A cache with room for all of them, and the smallest, for 16 sessions. */
const LARGE = { PERDURE_SESSION_CACHE: '384MiB' };
const SMALL = { PERDURE_SESSION_CACHE: '4MiB' };
const WAKES = 20;

/** Opens sessions and runs one turn in each. Returns their ids. */
export function openIdle(system: System, count: number): Promise<string[]> {
  return openMany(count, async () => {
    const id = await system.client.open();
    await turn(system, id);
    return id;
  });
}

/** Times of a plain turn in sessions that are cached, evicted and closed. */
async function wakes({ system }: Bench, sessions: readonly string[]): Promise<Result[]> {
  const samples = { cached: [] as number[], evicted: [] as number[], closed: [] as number[] };
  const cached = sessions.at(-1)!;
  for (let n = 0; n < WAKES; n += 1) {
    samples.cached.push((await turn(system, cached)).total);
    await rest();
    samples.evicted.push((await turn(system, sessions[n]!)).total);
    await rest();
    const closed = sessions[WAKES + n]!;
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

/** Cost of an idle session in a worker that has it in its cache, and time to wake it. */
export const idle: Figure = {
  name: 'idle',
  measure: async (bench) => {
    const { system } = bench;
    await system.restartWorker(LARGE);
    await openIdle(system, WARM_UP);
    const before = await sizes(system);
    await openIdle(system, SESSIONS);
    const after = await sizes(system);
    await system.restartWorker(SMALL);
    const woken = await wakes(bench, await openIdle(system, WAKES * 5));
    const each = (key: keyof typeof after) => (after[key] - before[key]) / SESSIONS / 1024;
    return [
      { name: 'idle session in the worker, cached', value: each('worker'), unit: 'KB', target: { atMost: 250 } },
      { name: 'idle session in Postgres, one turn', value: each('database'), unit: 'KB' },
      ...woken,
    ];
  },
};

/** Memory of a worker that has run ten thousand sessions, of which its cache holds a tenth. */
export const manyIdle: Figure = {
  name: 'many-idle',
  onRequest: { withinMs: 20 * 60_000 },
  measure: async ({ system, count }) => {
    await system.restartWorker();
    await openIdle(system, count / 2);
    const half = await sizes(system);
    await openIdle(system, count / 2);
    const all = await sizes(system);
    const evicted = (all.worker - half.worker) / (count / 2) / 1024;
    const name = `${count} idle sessions`;
    return [
      { name: `${name}: memory of the worker`, value: all.worker / 1024 ** 2, unit: 'MB', target: { atMost: 1_000 } },
      { name: 'idle session in the worker, evicted', value: evicted, unit: 'KB', target: { atMost: 10 } },
    ];
  },
};
