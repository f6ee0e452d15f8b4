import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Pointer } from '../../bus/bus.ts';
import { createMemoryBus } from '../../tools/test-kit/memory-bus.ts';
import { TurnProgress } from './turn-progress.ts';

// Time is simulated.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const TURN = { session: 'ses_1', run: 7 };
const claimed = { ...TURN, kind: 'status' } as const;
const grown = { ...TURN, kind: 'stream' } as const;
const over = { ...grown, over: true } as const;

/** Waits for the turn while pointers come at their times. Returns when the wait ended, and with what. */
async function waited(pointers: readonly (readonly [at: number, pointer: Pointer])[], { abortAt = Infinity } = {}) {
  const bus = createMemoryBus();
  const progress = new TurnProgress(bus);
  const stop = new AbortController();
  const from = performance.now();
  for (const [at, pointer] of pointers) setTimeout(() => bus.publish(pointer), at);
  if (abortAt < Infinity) setTimeout(() => stop.abort(), abortAt);
  let end: [number, string] | undefined;
  void progress
    .untilSlow(TURN.session, TURN.run, stop.signal)
    .then((state) => (end = [performance.now() - from, state]));
  await vi.advanceTimersByTimeAsync(1_000);
  progress.close();
  return end;
}

const every20 = Array.from({ length: 40 }, (_, n) => [20 * n + 10, grown] as const);

it.each([
  { what: 'no worker has begun it', pointers: [], end: [100, 'open'] },
  {
    what: 'it is over',
    pointers: [
      [8, claimed],
      [12, over],
    ] as const,
    end: [12, 'over'],
  },
  {
    what: 'it pauses',
    pointers: [
      [8, claimed],
      [12, grown],
      [60, over],
    ] as const,
    end: [32, 'open'],
  },
  {
    what: 'it goes on without a pause',
    pointers: [
      [5, grown],
      [20, grown],
      [38, over],
    ] as const,
    end: [38, 'over'],
  },
  { what: 'it has been claimed, and says nothing', pointers: [[90, claimed]] as const, end: [250, 'open'] },
  {
    what: 'it is long, without pauses',
    pointers: every20.map(([at, each]) => [at / 2, each] as const),
    end: [250, 'open'],
  },
  {
    what: 'others are over',
    pointers: [
      [8, { ...over, run: 6 }],
      [9, { ...over, session: 'ses_2' }],
    ] as const,
    end: [100, 'open'],
  },
])('W1 waits until $what', async ({ pointers, end }) => {
  expect(await waited(pointers)).toEqual(end);
});

it('W1 ends with the signal', async () => {
  expect(await waited([], { abortAt: 15 })).toEqual([15, 'open']);
});
