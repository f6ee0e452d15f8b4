import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import { type Load, load } from '../load.ts';
import { median, spread } from '../statistics.ts';
import { turn, type TurnAsk } from '../turn.ts';

const WARM_UP_MS = 500;
const OURS_MS = 2_000;
const FLOOR_MS = 1_000;
/** Targets: times the floor. */
const PLAIN = 2.2;
const TOOL = 2.5;

/** Turns of one session without a rest, as a queue sends them: what trails a turn delays the next one. */
async function withoutRest(
  { system, floor, rounds }: Bench,
  name: string,
  ask: TurnAsk,
  timesFloor: number,
): Promise<Result> {
  const ours: Load<number>[] = [];
  const bare: Load<number>[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const talk = floor();
    const bareTurn = async () => (await talk.turn({ key: randomUUID(), ...ask })).total;
    bare.push(await load(system.pids, [bareTurn], { warmUpMs: WARM_UP_MS, ms: FLOOR_MS }));
    const sessionId = await system.client.open();
    const ourTurn = async () => (await turn(system, sessionId, ask)).total;
    ours.push(await load(system.pids, [ourTurn], { warmUpMs: WARM_UP_MS, ms: OURS_MS }));
  }
  const totals = (runs: Load<number>[]) => runs.flatMap(({ samples }) => samples);
  return {
    name: `${name}, back to back`,
    value: median(totals(ours)),
    unit: 'ms',
    floor: median(totals(bare)),
    target: { timesFloor },
    detail: spread(totals(ours)),
  };
}

export const backToBack: Figure = {
  name: 'back-to-back',
  measure: async (bench) => [
    await withoutRest(bench, 'plain turn', {}, PLAIN),
    await withoutRest(bench, 'tool turn (two steps)', { tool: true }, TOOL),
  ],
};
