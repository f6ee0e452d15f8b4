import { patient } from '../test-kit/patient.ts';
import type { Reading, Readings } from './api.ts';
import type { Driver } from './driver.ts';
import type { Ledger } from './ledger.ts';
import type { Model } from './model.ts';
import type { World } from './world.ts';

/** T4: maximum lag of a reader in another process behind the model. */
const MOST_MS = patient(100);

/** Turns to measure before reporting a lag: other load on the machine may delay one or two. */
const TURNS = 3;

/** Measures a reader's lag after the faults: the best of a few turns counts. */
export async function checkFreshness(
  ledger: Ledger,
  { model }: World,
  driver: Driver,
  readings: Readings,
): Promise<void> {
  const medians: (number | undefined)[] = [];
  const isFresh = () => medians.some((ms) => ms !== undefined && ms <= MOST_MS);
  while (medians.length < TURNS && !isFresh()) {
    const before = readings.all.length;
    const id = await driver.slowChat();
    medians.push(medianLag(saidIn(model, id), readings.all.slice(before)));
  }
  ledger.check(
    'a reader is at most 100 ms behind',
    `session ${driver.session}`,
    isFresh(),
    () => `medians of ${medians.length} turns: ${medians.map((ms) => ms?.toFixed(1) ?? 'nothing read').join(', ')} ms`,
  );
}

/** When the model sent each word of an answer. */
function saidIn({ calls }: Model, messageId: string): Map<string, number> {
  const pieces = calls.filter((call) => call.messageId === messageId).flatMap((call) => call.pieces);
  return new Map(pieces.map(({ text, at }) => [text.trim(), at]));
}

/** Median lag in milliseconds. */
function medianLag(said: ReadonlyMap<string, number>, readings: readonly Reading[]): number | undefined {
  const lags: number[] = [];
  for (const { chunks, at } of readings) {
    for (const [n, chunk] of chunks.entries()) {
      if (chunk.type !== 'text-delta') continue;
      for (const word of chunk.delta.trim().split(' ')) {
        const saidAt = said.get(word);
        if (saidAt !== undefined) lags.push(at[n]! - saidAt);
      }
    }
  }
  return lags.toSorted((a, b) => a - b)[Math.floor(lags.length / 2)];
}
