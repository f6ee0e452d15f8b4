import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import { cpuRows, type Load, load, rateOf } from '../load.ts';
import type { System } from '../servers.ts';
import { spread } from '../statistics.ts';
import { withTemporalAlone } from '../temporal-alone/turns.ts';
import { turn } from '../turn.ts';

const ROUNDS = 3;
const WARM_UP_MS = 1_000;
const OURS_MS = 5_000;
const FLOOR_MS = 2_500;
/** Targets by number of sessions: this share of the bare call's rate on the same cores. */
const LEAST_SHARE: Record<number, number> = { 16: 0.45, 64: 0.4 };
/** Target: this share of the rate of a turn that is only a bare call and Temporal's own work. */
const LEAST_SHARE_OF_TEMPORAL = 1 / 2;

async function withSessions({ system, floor }: Bench, count: number): Promise<Result[]> {
  const sessions = await Promise.all(Array.from({ length: count }, () => system.client.open()));
  const ours: Load<number>[] = [];
  const bare: Load<number>[] = [];
  const temporal: Load<number>[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const talks = Array.from({ length: count }, () => floor());
    const bareTurn = (each: (typeof talks)[number]) => async () => (await each.turn({ key: randomUUID() })).total;
    bare.push(await load(system.pids, talks.map(bareTurn), { warmUpMs: WARM_UP_MS, ms: FLOOR_MS }));
    if (count === 16) temporal.push(await temporalAlone(system, count));
    const ourTurn = (id: string) => async () => (await turn(system, id)).total;
    ours.push(await load(system.pids, sessions.map(ourTurn), { warmUpMs: WARM_UP_MS, ms: OURS_MS }));
  }
  const spreadOf = (runs: Load<number>[]) => spread(runs.flatMap(({ samples }) => samples));
  const [value, bareRate] = [rateOf(ours), rateOf(bare)];
  const rate: Result = {
    name: `turns a second, ${count} sessions`,
    value,
    unit: '/s',
    floor: bareRate,
    ...(LEAST_SHARE[count] !== undefined && { target: { shareOfFloor: LEAST_SHARE[count] } }),
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

function temporalAlone(system: System, count: number): Promise<Load<number>> {
  return withTemporalAlone(system, (workflow, worker) =>
    load(() => ({ ...system.pids(), worker }), Array.from({ length: count }, workflow), {
      warmUpMs: WARM_UP_MS,
      ms: FLOOR_MS,
    }),
  );
}

export const throughput: Figure = {
  name: 'throughput',
  measure: async (bench) => [...(await withSessions(bench, 16)), ...(await withSessions(bench, 64))],
};
