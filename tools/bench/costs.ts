// What processes cost that have nothing to do.
import { setTimeout as delay } from 'node:timers/promises';
import { now } from './clock.ts';
import { cpuOf } from './cpu.ts';
import type { System } from './servers.ts';

const MEASURE_MS = 30_000;
/** Postgres counts the transactions of an idle connection up to ten seconds late: wait before measuring. */
export const SETTLE_MS = 12_000;

/** Transactions, and milliseconds of CPU, per second. */
interface Costs {
  transactions: number;
  host: number;
  postgres: number;
}

/** Measures for half a minute what all processes cost. */
export async function costs({ db, pids }: System, host: { pid: number }): Promise<Costs> {
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
  const perSecond = (key: keyof Costs) => (to[key] - from[key]) / ((to.at - from.at) / 1_000);
  return { transactions: perSecond('transactions'), host: perSecond('host'), postgres: perSecond('postgres') };
}
