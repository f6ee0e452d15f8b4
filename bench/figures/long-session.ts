import type { Figure } from '../figure.ts';
import { median, percentile, spread } from '../statistics.ts';
import { rest, turn } from '../turn.ts';

const TURNS = 200;
const EARLY = [10, 30] as const;
const LATE = [180, 200] as const;

/** A long conversation: later turns carry more before them, and the workflow continues as new several times. */
export const longSession: Figure = {
  name: 'long-session',
  measure: async ({ system, floor }) => {
    const sessionId = await system.client.open();
    const bare = floor();
    const totals: number[] = [];
    const floors: number[] = [];
    for (let n = 1; n <= TURNS; n += 1) {
      totals.push((await turn(system, sessionId)).total);
      await rest();
      floors.push((await bare.turn({ key: `floor-${n}` })).total);
      await rest();
    }
    const between = (samples: number[], [from, to]: readonly [number, number]) => median(samples.slice(from - 1, to));
    const early = between(totals, EARLY);
    const late = between(totals, LATE);
    const detail =
      `${early.toFixed(1)} → ${late.toFixed(1)} ms ` +
      `(floor ${between(floors, EARLY).toFixed(1)} → ${between(floors, LATE).toFixed(1)}); all: ${spread(totals)}`;
    return [
      { name: 'turns 180–200 over turns 10–30', value: late / early, unit: '×', target: 1.25, detail },
      { name: 'slowest of 200 turns', value: percentile(totals, 1), unit: 'ms' },
    ];
  },
};
