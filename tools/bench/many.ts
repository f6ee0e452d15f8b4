// Many sessions in one worker, and its memory at rest.
import { setTimeout as delay } from 'node:timers/promises';
import { cpuOf, memoryOf } from './cpu.ts';
import type { System } from './servers.ts';

const AT_ONCE = 16;
/** When its process has rested for some ten seconds, V8 collects garbage and gives memory back. */
const REST_MS = 20_000;
const LOOK_MS = 5_000;
/** Share of a core that a worker at rest does not reach: it polls, and renews its lease. */
const BUSY = 0.15;
const MAX_WAIT_MS = 180_000;

/** Opens sessions with `open`, which returns an id, some at a time. Returns their ids. */
export async function openMany(count: number, open: () => Promise<string>): Promise<string[]> {
  const ids: string[] = [];
  let begun = 0;
  const lane = async () => {
    while (begun < count) {
      begun += 1;
      ids.push(await open());
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return ids;
}

/** The memory of a worker at rest and the database's size, in bytes. */
export async function sizes({ db, pids }: System): Promise<{ worker: number; database: number }> {
  const { worker } = pids();
  await untilAtRest(worker);
  const { rows } = await db.query<{ size: number }>('SELECT pg_database_size(current_database()) AS size');
  return { worker: memoryOf(worker), database: rows[0]!.size };
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
