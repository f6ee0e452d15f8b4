import { randomUUID } from 'node:crypto';
import { cpuOf } from '../cpu.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import type { System } from '../servers.ts';
import { withTemporalAlone } from '../temporal-alone/turns.ts';
import { turn } from '../turn.ts';

const ROUNDS = 3;
const WARM_UP_MS = 1_000;
const OURS_MS = 5_000;
const FLOOR_MS = 2_500;
/** Target: this share of the bare call's rate on the same cores. */
const LEAST_SHARE = 1 / 3;
/** Target: this share of the rate of a turn that is only a bare call and Temporal's own work. */
const LEAST_SHARE_OF_TEMPORAL = 1 / 2;

/** Result of a load run. */
interface Measured {
  perSecond: number;
  /** Durations of the turns. */
  totals: number[];
  /** CPU of each process, in milliseconds a turn. */
  cpu: Record<string, number>;
}

/** Runs turns back to back in each conversation; the first second is not counted. */
async function talk(pids: System['pids'], conversations: (() => Promise<number>)[], ms: number): Promise<Measured> {
  const from = now() + WARM_UP_MS;
  const to = from + ms;
  const totals: number[] = [];
  const before = at(from, () => cpu(pids()));
  const after = at(to, () => cpu(pids()));
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
function cpu(pids: ReturnType<System['pids']>): Record<string, number> {
  // Postgres' CPU includes its child processes (one per connection); the others are single processes.
  return Object.fromEntries(
    Object.entries(pids).map(([name, pid]) => [name, cpuOf(pid, { children: name === 'postgres' })]),
  );
}

async function withSessions({ system, floor }: Bench, count: number): Promise<Result[]> {
  const sessions = await Promise.all(Array.from({ length: count }, () => system.client.open()));
  const ours: Measured[] = [];
  const bare: Measured[] = [];
  const temporal: Measured[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const talks = Array.from({ length: count }, () => floor());
    const bareTurn = (each: (typeof talks)[number]) => async () => (await each.turn({ key: randomUUID() })).total;
    bare.push(await talk(system.pids, talks.map(bareTurn), FLOOR_MS));
    if (count === 16) temporal.push(await temporalAlone(system, count));
    const ourTurn = (id: string) => async () => (await turn(system, id)).total;
    ours.push(await talk(system.pids, sessions.map(ourTurn), OURS_MS));
  }
  const spreadOf = (runs: Measured[]) => spread(runs.flatMap(({ totals }) => totals));
  const [value, bareRate] = [rateOf(ours), rateOf(bare)];
  const rate: Result = {
    name: `turns a second, ${count} sessions`,
    value,
    unit: '/s',
    floor: bareRate,
    ...(count === 16 && { target: { shareOfFloor: LEAST_SHARE } }),
    column: count === 16 ? 'turns16' : 'turns64',
    detail: `a turn: ${spreadOf(ours)}; bare: ${spreadOf(bare)}`,
  };
  if (count !== 16) return [rate];
  const temporalRate = rateOf(temporal);
  return [
    rate,
    {
      name: 'Temporal alone: an update and an empty activity, 16 workflows',
      value: temporalRate,
      unit: '/s',
      floor: bareRate,
      detail: `a turn: ${spreadOf(temporal)}`,
    },
    {
      name: 'turns a second, compared with Temporal alone plus the bare call',
      value,
      unit: '/s',
      floor: 1 / (1 / bareRate + 1 / temporalRate),
      target: { shareOfFloor: LEAST_SHARE_OF_TEMPORAL },
    },
    ...cpuRows('CPU of a turn of Temporal alone', temporal, ['worker', 'host', 'temporal']),
    ...cpuRows('CPU of a plain turn at 16', ours, Object.keys(ours[0]!.cpu)),
  ];
}

function temporalAlone(system: System, count: number): Promise<Measured> {
  return withTemporalAlone(system, (workflow, worker) =>
    talk(() => ({ ...system.pids(), worker }), Array.from({ length: count }, workflow), FLOOR_MS),
  );
}

const rateOf = (runs: Measured[]): number => median(runs.map(({ perSecond }) => perSecond));

/** CPU per process and in total. */
function cpuRows(name: string, runs: Measured[], processes: string[]): Result[] {
  const of = (each: string) => median(runs.map((run) => run.cpu[each]!));
  const total = processes.reduce((sum, each) => sum + of(each), 0);
  return [
    ...processes.map((each) => ({ name: `${name}: ${each}`, value: of(each), unit: 'ms' })),
    { name, value: total, unit: 'ms' },
  ];
}

export const throughput: Figure = {
  name: 'throughput',
  measure: async (bench) => [...(await withSessions(bench, 16)), ...(await withSessions(bench, 64))],
};
