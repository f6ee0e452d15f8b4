import type { Readings } from './api.ts';
import type { Driver } from './driver.ts';
import type { Ledger } from './ledger.ts';
import type { World } from './world.ts';

/** T4: a reader in another process sees text at most so long behind the model. */
const MOST_MS = 100;

/** With nothing wrong any more, how far is a reader behind the model? The median, for one slow moment proves nothing. */
export async function checkFreshness(
  ledger: Ledger,
  { model }: World,
  driver: Driver,
  readings: Readings,
): Promise<void> {
  const before = readings.all.length;
  const id = await driver.slowChat();
  const said = new Map(
    model.calls
      .filter((call) => call.messageId === id)
      .flatMap(({ pieces }) => pieces.map(({ text, at }) => [text.trim(), at])),
  );
  const lags: number[] = [];
  for (const { chunks, at } of readings.all.slice(before)) {
    for (const [n, chunk] of chunks.entries()) {
      if (chunk.type !== 'text-delta') continue;
      for (const word of chunk.delta.trim().split(' ')) {
        const saidAt = said.get(word);
        if (saidAt !== undefined) lags.push(at[n]! - saidAt);
      }
    }
  }
  const median = lags.toSorted((a, b) => a - b)[Math.floor(lags.length / 2)];
  const fresh = median !== undefined && median <= MOST_MS;
  ledger.check(
    'a reader is at most 100 ms behind',
    `message ${id}`,
    fresh,
    () => `median of ${lags.length} words: ${median} ms`,
  );
}
