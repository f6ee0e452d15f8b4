import { randomUUID } from 'node:crypto';
import type { Bench, Figure, Result } from '../figure.ts';
import type { System } from '../servers.ts';
import { median, spread } from '../statistics.ts';
import { rest, turn, type TurnAsk } from '../turn.ts';

const PER_ROUND = 12;

/** Alternating samples of a bare turn and ours, in new sessions each round, without the warm-up turns. */
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
      const stored = (await finishedAt(system, sessionId, ourTurn.runSeq)) - ourTurn.startedAt;
      (n >= 0 ? samples.ours : samples.ours.first).add({ ...ourTurn, stored });
    }
  }
  return samples;
}

class Samples {
  readonly total: number[] = [];
  readonly firstText: number[] = [];
  readonly stored: number[] = [];
  private firsts: Samples | undefined;

  /** First turns, which start the session's workflow. */
  get first(): Samples {
    return (this.firsts ??= new Samples());
  }

  add({ total, firstText, stored = Number.NaN }: { total: number; firstText: number; stored?: number }): void {
    this.total.push(total);
    this.firstText.push(firstText);
    this.stored.push(stored);
  }
}

/** When a run's row was settled with its answer, by Postgres' clock, in epoch milliseconds. */
async function finishedAt({ db }: System, sessionId: string, runSeq: number): Promise<number> {
  const { rows } = await db.query<{ at: number }>(
    'SELECT extract(epoch FROM finished_at)::float8 * 1000 AS at FROM chat_runs WHERE session_id = $1 AND seq = $2',
    [sessionId, runSeq],
  );
  return rows[0]!.at;
}

async function whole(
  bench: Bench,
  name: string,
  ask: TurnAsk,
  target: number,
  column: 'plain' | 'tool',
): Promise<Result[]> {
  const { floor, ours } = await interleaved(bench, ask, 'sender');
  const result: Result = {
    name,
    value: median(ours.total),
    unit: 'ms',
    floor: median(floor.total),
    target: { overFloor: target },
    column,
    detail: `${spread(ours.total)}; first text ${median(ours.firstText).toFixed(1)}`,
  };
  const stored = { name: `${name}: answer stored`, value: median(ours.stored), unit: 'ms', floor: median(floor.total) };
  const first = { name: `${name}, first of a session`, value: median(ours.first.total), unit: 'ms' };
  return [result, stored, first];
}

export const plainTurn: Figure = { name: 'plain', measure: (bench) => whole(bench, 'plain turn', {}, 6, 'plain') };

export const toolTurn: Figure = {
  name: 'tool',
  measure: (bench) => whole(bench, 'tool turn (two steps)', { tool: true }, 14, 'tool'),
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
      target: { overFloor: 7 },
      column: 'firstToken',
      detail: spread(ours.firstText),
    };
    return [result];
  },
};
