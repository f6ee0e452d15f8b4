import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import { turn, type TurnAsk } from '../turn.ts';

/** Turns of a conversation: the first ones, which warm it up, are not counted. */
const TURNS = 40;
const WARM_UP = 5;
const WITHIN_MS = 3 * 60_000;
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
  const ours: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const talk = floor();
    bare.push(...(await inARow(async () => (await talk.turn({ key: randomUUID(), ...ask })).total)));
    const sessionId = await system.client.open();
    ours.push(...(await inARow(async () => (await turn(system, sessionId, ask)).total)));
  }
  return {
    name: `${name}, back to back`,
    value: median(ours),
    unit: 'ms',
    floor: median(bare),
    target: { timesFloor },
    detail: spread(ours),
  };
}

/** The durations of the turns of one conversation. */
async function inARow(next: () => Promise<number>): Promise<number[]> {
  const totals: number[] = [];
  for (let n = 0; n < TURNS; n += 1) totals.push(await next());
  return totals.slice(WARM_UP);
}

export const backToBack: Figure = {
  name: 'back-to-back',
  onRequest: { withinMs: WITHIN_MS },
  measure: async (bench) => [
    await withoutRest(bench, 'plain turn', {}, PLAIN),
    await withoutRest(bench, 'tool turn (two steps)', { tool: true }, TOOL),
  ],
};
