import { cpuOf } from '../cpu.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { spread } from '../statistics.ts';
import type { System } from '../servers.ts';
import { turn } from '../turn.ts';

const WARM_UP_MS = 2_000;
const MEASURED_MS = 8_000;

/** CPU so far of each process, in milliseconds. */
function cpu({ pids }: System): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuOf(pid) ?? Number.NaN]));
}

/** Sessions that each send a message as soon as the answer to the last one is there. */
async function withSessions({ system }: Bench, count: number): Promise<Result[]> {
  const sessions = await Promise.all(Array.from({ length: count }, () => system.client.open()));
  const startedAt = now();
  const from = startedAt + WARM_UP_MS;
  const to = from + MEASURED_MS;
  const totals: number[] = [];
  const cpuBefore = new Promise<Record<string, number>>((resolve) => {
    setTimeout(() => resolve(cpu(system)), WARM_UP_MS);
  });
  const cpuAfter = new Promise<Record<string, number>>((resolve) => {
    setTimeout(() => resolve(cpu(system)), WARM_UP_MS + MEASURED_MS);
  });
  const talk = async (sessionId: string) => {
    while (now() < to) {
      const { total } = await turn(system, sessionId);
      if (now() > from && now() < to) totals.push(total);
    }
  };
  await Promise.all(sessions.map(talk));
  const [before, after] = await Promise.all([cpuBefore, cpuAfter]);
  const perTurn = Object.keys(after).map(
    (name) => `${name} ${((after[name]! - before[name]!) / totals.length).toFixed(1)}`,
  );
  return [
    {
      name: `turns a second, ${count} sessions`,
      value: (totals.length * 1000) / MEASURED_MS,
      unit: '/s',
      detail: `${spread(totals)}; CPU ms a turn: ${perTurn.join(', ')}`,
    },
  ];
}

export const throughput: Figure = {
  name: 'throughput',
  measure: async (bench) => [...(await withSessions(bench, 16)), ...(await withSessions(bench, 64))],
};
