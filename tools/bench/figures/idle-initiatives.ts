// What ten thousand idle initiatives cost, beside as many idle sessions.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { costs, SETTLE_MS } from '../costs.ts';
import type { Figure, Result, Target } from '../figure.ts';
import { startHost } from '../host-process.ts';
import { createInitiative, workOnce } from '../initiative.ts';
import { COLLECTING, openMany, sizesHeld } from '../many.ts';
import type { System } from '../servers.ts';
import { openTimers, READ } from '../timers.ts';
import { openIdle } from './idle.ts';

const TASKS = 5;
/** Differences that do not count: of transactions a second, as two measurements of the same differ, and of memory in MB and KB. */
const TOLERANCE = { transactions: 1, memory: 20, evicted: 10 };

/** What idle ones cost, and their timers. */
interface Cost {
  /** A second, of all of them, in worker and host. */
  transactions: number;
  /** Open timers of each of them that has a workflow. */
  timers: number;
  /** What the worker holds with all of them, of which some are in its cache, in MB. */
  memory: number;
  /** What the worker holds more for each of the second half, in KB: they have taken the places of others in its cache. */
  evicted: number;
  /** In Postgres for each, in KB. */
  database: number;
}

/** Opens as many as `count` in a new worker, and measures what they cost when they are idle. */
async function costOf(
  system: System,
  host: { pid: number },
  { count, open }: { count: number; open: (count: number) => Promise<string[]> },
): Promise<Cost> {
  await system.restartWorker(COLLECTING);
  await delay(SETTLE_MS);
  const before = { ...(await costs(system, host)), ...(await sizesHeld(system)) };
  const ids = await open(count / 2);
  const half = await sizesHeld(system);
  ids.push(...(await open(count / 2)));
  const all = await sizesHeld(system);
  const { transactions } = await costs(system, host);
  const { timers, workflows } = await openTimers(system, ids);
  return {
    transactions: transactions - before.transactions,
    timers: timers / workflows,
    memory: all.worker / 1024 ** 2,
    evicted: (all.worker - half.worker) / (count / 2) / 1024,
    database: (all.database - before.database) / count / 1024,
  };
}

function rows(count: number, initiatives: Cost, sessions: Cost): Result[] {
  const row = (what: string, key: keyof Cost, more: { unit: string; target?: Target }): Result => ({
    ...{ name: `${count} idle initiatives (floor: sessions): ${what}`, value: initiatives[key], floor: sessions[key] },
    ...more,
  });
  return [
    row('transactions a second of worker and host', 'transactions', {
      unit: '',
      target: { overFloor: TOLERANCE.transactions },
    }),
    row(`open timers of each workflow, of ${READ}`, 'timers', { unit: '', target: { overFloor: 0 } }),
    row('memory that the worker holds', 'memory', { unit: 'MB', target: { overFloor: TOLERANCE.memory } }),
    row('the same, each of the second half', 'evicted', { unit: 'KB', target: { overFloor: TOLERANCE.evicted } }),
    row('in Postgres, each', 'database', { unit: 'KB' }),
  ];
}

/**
 * Idle initiatives of five tasks, on which one work session has completed one, beside idle sessions with one turn: transactions, timers,
 * memory of a worker and bytes in Postgres.
 */
export const idleInitiatives: Figure = {
  name: 'idle-initiatives',
  onRequest: { withinMs: 45 * 60_000 },
  measure: async ({ system, count }) => {
    await using stops = new AsyncDisposableStack();
    const dir = path.join(tmpdir(), `perdure-bench-idle-${randomUUID()}`);
    stops.defer(() => rm(dir, { recursive: true, force: true }));
    const host = await startHost(system, dir);
    stops.defer(async () => void (await host.stop()));
    const sessions = await costOf(system, host, { count, open: (many) => openIdle(system, many) });
    const open = (many: number) =>
      openMany(many, async () => {
        const id = await createInitiative(system, TASKS);
        await workOnce(system, id);
        return id;
      });
    return rows(count, await costOf(system, host, { count, open }), sessions);
  },
};
