import { expect, it } from 'vitest';
import { ALWAYS, STREAMS_AT_ONCE, firstLimit, type Lag, nextLimit, type StreamLimit } from './stream-limit.ts';

const BOUNDS = { maxStreams: 1_000, maxLagMs: 100 };
const LATE: Lag = { loop: 120, write: 0 };
const BETWEEN: Lag = { loop: 80, write: 0 };
const IN_TIME: Lag = { loop: 5, write: 40 };

/** The limits after each of the samples, with as many streams as the limit allows, or `running`. */
function limits(from: number, lags: readonly Lag[], running?: number, bounds = BOUNDS): number[] {
  let limit: StreamLimit = { streams: from, late: 0, lowered: from };
  return lags.map((lag) => {
    limit = nextLimit(limit, lag, running ?? limit.streams, bounds);
    return limit.streams;
  });
}

it('Q2 three late samples in a row lower the limit, of the event loop or of writes; fewer may be a garbage collection', () => {
  expect(limits(300, [LATE, LATE, BETWEEN, LATE, LATE, LATE])).toEqual([300, 300, 300, 300, 300, 270]);
  const slow: Lag = { loop: 0, write: 700 };
  expect(limits(300, [slow, slow, slow, slow, slow, slow])).toEqual([300, 300, 270, 270, 270, 243]);
});

it('Q2 the limit falls to nine tenths of what runs, and not again before that has ended', () => {
  expect(limits(1_000, [LATE, LATE, LATE], 200).at(-1)).toBe(180);
  expect(
    limits(
      180,
      Array.from({ length: 20 }, () => LATE),
      200,
    ).at(-1),
  ).toBe(180);
  expect(limits(180, [LATE, LATE, LATE], 180).at(-1)).toBe(162);
});

it('Q2 between the bounds nothing changes; in time the limit rises slowly from where it was lowered', () => {
  expect(limits(300, [BETWEEN, BETWEEN, BETWEEN])).toEqual([300, 300, 300]);
  expect(limits(300, [IN_TIME, IN_TIME])).toEqual([315, 331]);
});

it('Q2 a sudden load begins in steps: the limit follows what runs', () => {
  let limit = firstLimit(BOUNDS);
  const steps = Array.from({ length: 8 }, () => (limit = nextLimit(limit, IN_TIME, limit.streams, BOUNDS)).streams);
  expect(steps).toEqual([40, 50, 63, 79, 99, 124, 155, 194]);
  expect(limits(300, [IN_TIME], 100)).toEqual([125]);
  expect(limits(300, [IN_TIME], 1)).toEqual([STREAMS_AT_ONCE]);
});

it('Q2 a few streams may always run, and never more than the setting says', () => {
  const late = Array.from({ length: 300 }, () => LATE);
  const inTime = Array.from({ length: 300 }, () => IN_TIME);
  expect(limits(300, late).at(-1)).toBe(ALWAYS);
  expect(limits(300, inTime).at(-1)).toBe(BOUNDS.maxStreams);
  const few = { ...BOUNDS, maxStreams: 2 };
  expect([firstLimit(few).streams, limits(2, late, 2, few).at(-1), limits(2, inTime, 2, few).at(-1)]).toEqual([
    2, 2, 2,
  ]);
});

it('Q2 settles near what a worker can serve, and does not pass far beyond it at first', () => {
  const serves = 60;
  let limit = firstLimit(BOUNDS);
  const all: number[] = [];
  // Streams of two seconds: in a tenth of one, a twentieth of them ends.
  let running = 0;
  for (let sample = 0; sample < 600; sample += 1) {
    running = Math.max(running - Math.ceil(running / 20), Math.min(limit.streams, 240));
    limit = nextLimit(limit, { loop: Math.max(0, running - serves) * 5, write: 0 }, running, BOUNDS);
    all.push(running);
  }
  expect(Math.max(...all)).toBeLessThan(serves * 1.7);
  expect(Math.min(...all.slice(200))).toBeGreaterThan(serves);
});
