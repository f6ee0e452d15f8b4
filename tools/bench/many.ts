// Many sessions in one worker, and its memory at rest.
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { cpuOf, memoryOf } from './cpu.ts';
import type { System } from './servers.ts';

const AT_ONCE = 16;
/** When its process has rested for some ten seconds, V8 collects garbage and gives memory back. */
const REST_MS = 20_000;
const LOOK_MS = 5_000;
/** Share of a core that a worker at rest does not reach: it polls, and renews its lease. */
const BUSY = 0.15;
const MAX_WAIT_MS = 180_000;

/** Settings of a worker for `sizesHeld`. */
export const COLLECTING = { NODE_OPTIONS: `--import ${new URL('collect-garbage.ts', import.meta.url).href}` };

/** In bytes. */
interface Sizes {
  worker: number;
  database: number;
}

/** Opens sessions with `open`, which returns an id, some at a time. Returns their ids. */
export function openMany(count: number, open: () => Promise<string>): Promise<string[]> {
  return pLimit(AT_ONCE).map(Array(count).keys(), open);
}

/** The memory of a worker at rest, and the database's size. */
export async function sizes({ db, pids }: System): Promise<Sizes> {
  const { worker } = pids();
  await untilAtRest(worker);
  const { rows } = await db.query<{ size: number }>('SELECT pg_database_size(current_database()) AS size');
  return { worker: memoryOf(worker), database: rows[0]!.size };
}

/** The same, once the worker has collected its garbage: what it holds, and not what V8 has not got round to yet. */
export async function sizesHeld(system: System): Promise<Sizes> {
  const { worker } = system.pids();
  await untilAtRest(worker);
  process.kill(worker, 'SIGWINCH');
  return sizes(system);
}

/** Waits until a process has rested for a while: what trails behind the sessions, such as their wake-ups, may take a minute. */
async function untilAtRest(pid: number): Promise<void> {
  let rested = 0;
  for (let waited = 0; rested < REST_MS && waited < MAX_WAIT_MS; waited += LOOK_MS) {
    const before = cpuOf(pid);
    await delay(LOOK_MS);
    rested = cpuOf(pid) - before >= BUSY * LOOK_MS ? 0 : rested + LOOK_MS;
  }
}
