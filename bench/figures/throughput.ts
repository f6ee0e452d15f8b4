import { randomUUID } from 'node:crypto';
import { cpuOf } from '../cpu.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import type { System } from '../servers.ts';
import { turn } from '../turn.ts';

const ROUNDS = 3;
const WARM_UP_MS = 1_000;
const OURS_MS = 5_000;
const FLOOR_MS = 2_500;
/** Of the bare model call's turns a second, with everything on the same two cores. */
const LEAST_SHARE = 1 / 3;

/** What came of a while of talking. */
interface Measured {
  perSecond: number;
  /** Durations of the turns. */
  totals: number[];
  /** CPU of each process, in milliseconds a turn. */
  cpu: Record<string, number>;
}

/** Conversations that each say something as soon as the last answer is there; the first second does not count. */
async function talk(system: System, conversations: (() => Promise<number>)[], ms: number): Promise<Measured> {
  const from = now() + WARM_UP_MS;
  const to = from + ms;
  const totals: number[] = [];
  const before = at(from, () => cpu(system));
  const after = at(to, () => cpu(system));
  await Promise.all(
    conversations.map(async (say) => {
      while (now() < to) {
        const total = await say();
        if (now() > from && now() < to) totals.push(total);
      }
    }),
  );
  const [first, last] = await Promise.all([before, after]);
  const used = Object.entries(last).map(([name, taken]) => [name, (taken - first[name]!) / totals.length]);
  return { perSecond: (totals.length * 1000) / ms, totals, cpu: Object.fromEntries(used) as Measured['cpu'] };
}

function at<T>(moment: number, look: () => T): Promise<T> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(look()), moment - now());
  });
}

/** CPU so far of each process, in milliseconds. */
function cpu({ pids }: System): Record<string, number> {
  // Postgres works in processes of its connections; of the others only what they do themselves is theirs.
  return Object.fromEntries(
    Object.entries(pids()).map(([name, pid]) => [name, cpuOf(pid, { children: name === 'postgres' })]),
  );
}

async function withSessions({ system, floor }: Bench, count: number): Promise<Result[]> {
  const sessions = await Promise.all(Array.from({ length: count }, () => system.client.open()));
  const ours: Measured[] = [];
  const bare: Measured[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const talks = Array.from({ length: count }, () => floor());
    const bareTurn = (each: (typeof talks)[number]) => async () => (await each.turn({ key: randomUUID() })).total;
    bare.push(await talk(system, talks.map(bareTurn), FLOOR_MS));
    const ourTurn = (id: string) => async () => (await turn(system, id)).total;
    ours.push(await talk(system, sessions.map(ourTurn), OURS_MS));
  }
  const value = median(ours.map(({ perSecond }) => perSecond));
  const cpuOfTurn = (name: string) => median(ours.map((each) => each.cpu[name]!));
  const names = Object.keys(ours[0]!.cpu);
  const rate: Result = {
    name: `turns a second, ${count} sessions`,
    value,
    unit: '/s',
    floor: median(bare.map(({ perSecond }) => perSecond)),
    ...(count === 16 && { target: { shareOfFloor: LEAST_SHARE } }),
    column: count === 16 ? 'turns16' : 'turns64',
    detail: `a turn: ${spread(ours.flatMap(({ totals }) => totals))}; bare: ${spread(bare.flatMap(({ totals }) => totals))}`,
  };
  if (count !== 16) return [rate];
  return [
    rate,
    ...names.map((name) => ({ name: `CPU of a plain turn at 16: ${name}`, value: cpuOfTurn(name), unit: 'ms' })),
    { name: 'CPU of a plain turn at 16', value: names.reduce((sum, name) => sum + cpuOfTurn(name), 0), unit: 'ms' },
  ];
}

export const throughput: Figure = {
  name: 'throughput',
  measure: async (bench) => [...(await withSessions(bench, 16)), ...(await withSessions(bench, 64))],
};
