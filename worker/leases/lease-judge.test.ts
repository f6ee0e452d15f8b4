import { expect, it } from 'vitest';
import { LeaseJudge } from './lease-judge.ts';

const LEASE_MS = 750;
const INTERVAL_MS = 250;

/** A judge that has renewed its lease on one connection for ten seconds, and its clock. */
function judging({ upMs = 1e9, seconds = 10 } = {}) {
  let now = 0;
  const judge = new LeaseJudge(LEASE_MS, () => now);
  /** Renews `afterMs` after the last time, and sees a worker with a lease of this age. */
  const look = (afterMs: number, age_ms?: number, { gapMs = afterMs, lease_ms = LEASE_MS } = {}) => {
    now += afterMs;
    const late = age_ms === undefined ? [] : [{ worker_id: 'b', lease_ms, age_ms }];
    return judge.look({ late, gap_ms: gapMs });
  };
  judge.begin('connection', upMs);
  for (let at = 0; at < seconds * 1_000; at += INTERVAL_MS) look(INTERVAL_MS);
  return { look, begin: (connection: string) => judge.begin(connection, 1e9) };
}

it('T5 a lapsed lease: looks at the time, looks again, and the worker is lost', () => {
  const { look } = judging();
  expect(look(INTERVAL_MS, 600)).toEqual({ lost: [], againMs: 150 });
  expect(look(150, 750)).toEqual({ lost: [], againMs: 100 });
  expect(look(60, 810)).toEqual({ lost: [], againMs: 40 });
  expect(look(40, 850)).toEqual({ lost: ['b'], againMs: Infinity });
});

it('T5 a worker that renews between the two looks is not lost', () => {
  const { look } = judging();
  look(INTERVAL_MS, 760);
  look(100);
  expect(look(INTERVAL_MS, 760)).toEqual({ lost: [], againMs: 100 });
});

it('T5 the length of a lease is what its holder says', () => {
  const { look } = judging();
  look(INTERVAL_MS, 2_900, { lease_ms: 3_000 });
  expect(look(100, 3_000, { lease_ms: 3_000 })).toEqual({ lost: [], againMs: 100 });
});

it.each([
  ['a stall that the judge has felt', (world: ReturnType<typeof judging>) => world.look(800, 1_000)],
  ['a clock of Postgres that was set', (world: ReturnType<typeof judging>) => world.look(250, 4_000, { gapMs: 3_500 })],
])('T5 after %s nobody is lost for two lengths of a lease', (_what, happens) => {
  const world = judging();
  expect(happens(world).lost).toEqual([]);
  for (let ms = 0; ms < 2 * LEASE_MS; ms += 100) expect(world.look(ms === 0 ? 0 : 100, 5_000).lost).toEqual([]);
  world.look(100, 5_000);
  expect(world.look(100, 5_000).lost).toEqual(['b']);
});

it.each([
  [
    'when the judge has reconnected',
    () => {
      const world = judging();
      world.begin('another connection');
      return world;
    },
  ],
  ['after a restart of Postgres', () => judging({ upMs: 0, seconds: 0 })],
])('T5 nobody is lost for five seconds %s: others have to reconnect too', (_when, begin) => {
  const { look } = begin();
  for (let ms = 0; ms < 4_900; ms += 100) expect(look(100, 5_000).lost).toEqual([]);
  look(100, 5_000);
  expect(look(100, 5_000).lost).toEqual(['b']);
});
