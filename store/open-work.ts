import { z } from 'zod';
import { type Db, many } from './db.ts';

const openWork = z.object({
  queued: z.number(),
  running: z.number(),
  waiting: z.number(),
  oldest_s: z.number(),
  stuck: z.number(),
});

/**
 * How many runs are open, by state, for how many seconds the oldest run that could start has been queued, and how many
 * sessions and initiatives are stuck. Each count stops at `COUNTED`.
 */
export type OpenWork = z.infer<typeof openWork>;

export const COUNTED = 10_000;

/** Reads the open work of all sessions. Runs that cannot start (behind an open run, in a paused queue) are not late. */
export async function readOpenWork(db: Db): Promise<OpenWork> {
  const [work] = await many(db, openWork, 'SELECT * FROM open_work($1)', [COUNTED]);
  if (work === undefined) throw new Error('open_work: expected one row');
  return work;
}
