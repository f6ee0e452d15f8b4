import { setTimeout as delay } from 'node:timers/promises';
import type { Figure } from '../figure.ts';
import { turn } from '../turn.ts';
import { walPosition } from '../wal-position.ts';

const BYTES = 32_000;
const CHUNKS = 2_000;
/** A model that sends 200 tokens a second. */
const PACE_MS = 5;

export const wal: Figure = {
  name: 'wal',
  measure: async (bench) => {
    const sessionId = await bench.system.client.open();
    const long = { chunks: CHUNKS, size: BYTES / CHUNKS, pace: PACE_MS };
    await turn(bench.system, sessionId);
    // The first change of a page after a checkpoint writes the whole page: a constant per table, not per byte.
    await bench.system.db.query('CHECKPOINT');
    await turn(bench.system, sessionId);
    await delay(200);
    const before = await walPosition(bench.system.db);
    await turn(bench.system, sessionId, long);
    const written = (await walPosition(bench.system.db)) - before;
    const name = 'WAL of a 32 KB answer in 2,000 chunks, a byte';
    return [{ name, value: written / BYTES, unit: 'B', target: { atMost: 20 }, detail: `${written} B in all` }];
  },
};
