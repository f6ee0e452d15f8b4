import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { indexMessages } from '../../store/search.ts';

/** Messages per transaction: about 20 ms of Postgres, or 500,000 bytes of long ones (up to 0.5 s). */
const BATCH = 50;
/** The indexer works for at most half of the time, so that a backlog does not slow the turns down. */
const SHARE = 0.5;
/** What is left then waits for the next interval. */
const MOST_MS = 10_000;

/** Indexes the messages of turns that are over, in batches, and then again what was indexed in another way. Workers share the work. */
export async function indexQueued(db: pg.Pool, signal: AbortSignal): Promise<void> {
  const end = performance.now() + MOST_MS;
  while (!signal.aborted && performance.now() < end) {
    const from = performance.now();
    if ((await indexMessages(db, BATCH)) < BATCH) return;
    await delay((performance.now() - from) * (1 / SHARE - 1), undefined, { signal }).catch(() => {});
  }
}
