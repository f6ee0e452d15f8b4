import type { Figure, Result } from '../figure.ts';
import { HistoryMeter } from '../history.ts';
import { mean, median, percentile, spread } from '../statistics.ts';
import { rest, turn } from '../turn.ts';

const TURNS = 200;
const EARLY = [10, 30] as const;
const LATE = [180, 200] as const;
const TURNS_OF_MEAN = 20;

/** A long conversation: the context grows and the workflow continues as new several times. */
export const longSession: Figure = {
  name: 'long-session',
  measure: async ({ system, floor }) => {
    const sessionId = await system.client.open();
    const bare = floor();
    const meter = new HistoryMeter(system, sessionId);
    const totals: number[] = [];
    const floors: number[] = [];
    const bytes: number[] = [];
    for (let n = 1; n <= TURNS; n += 1) {
      totals.push((await turn(system, sessionId)).total);
      await rest();
      floors.push((await bare.turn({ key: `floor-${n}` })).total);
      await rest();
      bytes.push((await meter.grown()).bytes);
    }
    return [...durations(totals, floors), ...history(bytes)];
  },
};

function durations(totals: number[], floors: number[]): Result[] {
  const between = (samples: number[], [from, to]: readonly [number, number]) => median(samples.slice(from - 1, to));
  const [early, late] = [between(totals, EARLY), between(totals, LATE)];
  const [bareEarly, bareLate] = [between(floors, EARLY), between(floors, LATE)];
  const detail =
    `${early.toFixed(1)} → ${late.toFixed(1)} ms ` +
    `(floor ${bareEarly.toFixed(1)} → ${bareLate.toFixed(1)}); all: ${spread(totals)}`;
  const name = 'turns 180–200 over turns 10–30';
  return [
    { name, value: late / early, unit: '×', floor: bareLate / bareEarly, target: { atMost: 1.25 }, detail },
    { name: 'slowest of 200 turns', value: percentile(totals, 1), unit: 'ms' },
  ];
}

/**
 * Mean of twenty turns: the workflow hears of several turns at once, so most of them add nothing by themselves. Without those in
 * which the workflow continued as new, whose growth is not known.
 */
function history(bytes: number[]): Result[] {
  const around = (n: number) => mean(bytes.slice(n - TURNS_OF_MEAN, n).filter((each) => Number.isFinite(each)));
  return [
    { name: 'history bytes of a turn at 20 turns', value: around(20), unit: 'B', column: 'bytes20' },
    { name: 'history bytes of a turn at 200 turns', value: around(200), unit: 'B', column: 'bytes200' },
  ];
}
