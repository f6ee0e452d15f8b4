import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';
import { rest, turn, type TurnAsk } from '../turn.ts';

const PER_ROUND = 12;

/** Samples of a bare turn and of ours, one after the other, in new sessions each round; warm-up turns do not count. */
async function interleaved(
  { system, floor, rounds }: Bench,
  ask: TurnAsk,
  by: 'sender' | 'reader',
): Promise<{ floor: Samples; ours: Samples }> {
  const samples = { floor: new Samples(), ours: new Samples() };
  for (let round = 0; round < rounds; round += 1) {
    const sessionId = await system.client.open();
    const bare = floor();
    for (let n = -1; n < PER_ROUND; n += 1) {
      const bareTurn = await bare.turn({ key: randomUUID(), ...ask });
      await rest();
      const ourTurn = await turn(system, sessionId, ask, { by });
      await rest();
      if (n >= 0) samples.floor.add(bareTurn);
      (n >= 0 ? samples.ours : samples.ours.first).add(ourTurn);
    }
  }
  return samples;
}

class Samples {
  readonly total: number[] = [];
  readonly firstText: number[] = [];
  private firsts: Samples | undefined;

  /** Those of first turns, which start the session's workflow. */
  get first(): Samples {
    return (this.firsts ??= new Samples());
  }

  add({ total, firstText }: { total: number; firstText: number }): void {
    this.total.push(total);
    this.firstText.push(firstText);
  }
}

async function whole(bench: Bench, name: string, ask: TurnAsk, target: number): Promise<Result[]> {
  const { floor, ours } = await interleaved(bench, ask, 'sender');
  const result: Result = {
    name,
    value: median(ours.total),
    unit: 'ms',
    floor: median(floor.total),
    target,
    against: 'floor',
    detail: `${spread(ours.total)}; first text ${median(ours.firstText).toFixed(1)}`,
  };
  const first = { name: `${name}, first of a session`, value: median(ours.first.total), unit: 'ms' };
  return [result, first];
}

export const plainTurn: Figure = { name: 'plain', measure: (bench) => whole(bench, 'plain turn', {}, 25) };

export const toolTurn: Figure = {
  name: 'tool',
  measure: (bench) => whole(bench, 'tool turn (two steps)', { tool: true }, 60),
};

export const firstChunk: Figure = {
  name: 'first-chunk',
  measure: async (bench) => {
    const { floor, ours } = await interleaved(bench, { chunks: 60, pace: 2 }, 'reader');
    const result: Result = {
      name: 'first chunk in another process',
      value: median(ours.firstText),
      unit: 'ms',
      floor: median(floor.firstText),
      target: 22,
      against: 'floor',
      detail: spread(ours.firstText),
    };
    return [result];
  },
};
