import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import { cpuOfTurn, cpuRows, type Load, load, rateOf } from '../load.ts';
import { percentile } from '../statistics.ts';
import { turn } from '../turn.ts';

/** An answer of 1.2 s. */
const ANSWER = { chunks: 60, pace: 20 };
const ROUNDS = 2;
const WARM_UP_MS = 6_000;
const OURS_MS = 12_000;
const FLOOR_MS = 6_000;
const WITHIN_MS = 10 * 60_000;

type Sample = Pick<Awaited<ReturnType<typeof turn>>, 'firstText' | 'longestGap'>;
type Targets = { rate?: Result['target']; firstText?: Result['target']; cpu?: Result['target'] };

/** Sessions that stream answer after answer, each followed live. */
async function streams({ system, floor }: Bench, count: number, targets: Targets): Promise<Result[]> {
  const ours: Load<Sample>[] = [];
  const bare: Load<Sample>[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const talks = Array.from({ length: count }, () => floor());
    const bareTurns = talks.map((talk) => () => talk.turn({ key: randomUUID(), ...ANSWER }));
    bare.push(await load(system.pids, bareTurns, { warmUpMs: WARM_UP_MS / 2, ms: FLOOR_MS }));
    const sessions = await Promise.all(Array.from({ length: count }, () => system.client.open()));
    const ourTurns = sessions.map((sessionId) => () => turn(system, sessionId, ANSWER));
    ours.push(await load(system.pids, ourTurns, { warmUpMs: WARM_UP_MS, ms: OURS_MS }));
  }
  const name = `live streams, ${count} sessions`;
  const time = (what: string, key: keyof Sample, share: number, target?: Result['target']): Result => {
    const of = (runs: Load<Sample>[]) =>
      percentile(
        runs.flatMap(({ samples }) => samples.map((each) => each[key])),
        share,
      );
    return { name: `${name}: ${what}`, value: of(ours), floor: of(bare), unit: 'ms', ...(target && { target }) };
  };
  return [
    {
      name: `${name}: answers a second`,
      value: rateOf(ours),
      floor: rateOf(bare),
      unit: '/s',
      ...(targets.rate && { target: targets.rate }),
    },
    time('first text, p50', 'firstText', 0.5, targets.firstText),
    time('first text, p99', 'firstText', 0.99),
    time('longest gap of an answer, p99', 'longestGap', 0.99),
    ...cpuRows(`${name}: CPU of an answer`, ours, Object.keys(ours[0]!.cpu), {
      floor: cpuOfTurn(bare),
      ...(targets.cpu && { target: targets.cpu }),
    }),
  ];
}

export const liveStreams: Figure = {
  name: 'live-streams',
  onRequest: { withinMs: WITHIN_MS },
  measure: async (bench) => [
    ...(await streams(bench, 32, { firstText: { overFloor: 40 }, cpu: { timesFloor: 2 } })),
    ...(await streams(bench, 128, { rate: { shareOfFloor: 0.6 }, firstText: { atMost: 1_000 } })),
  ],
};
