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
 * How many runs are open, by state, for how many seconds the longest-waiting one that could begin has waited, and how
 * many sessions are stuck.
 */
export type OpenWork = z.infer<typeof openWork>;

/**
 * The work of all sessions in one reading of the open runs, by their indexes. A run that waits for one ahead of it, or
 * in a paused queue, is queued but not late.
 */
export async function readOpenWork(db: Db): Promise<OpenWork> {
  const [work] = await many(
    db,
    openWork,
    `SELECT count(*) FILTER (WHERE r.state = 'queued') AS queued,
            count(*) FILTER (WHERE r.state = 'running') AS running,
            count(*) FILTER (WHERE r.state = 'waiting') AS waiting,
            coalesce(max(extract(epoch FROM clock_timestamp() - r.created_at)) FILTER (
              WHERE r.state = 'queued' AND c.paused_at IS NULL AND NOT EXISTS (
                SELECT FROM chat_runs ahead WHERE ahead.session_id = r.session_id AND ahead.seq < r.seq
                   AND ahead.state IN ('queued', 'running', 'waiting'))), 0)::float8 AS oldest_s,
            (SELECT count(*) FROM chat_sessions WHERE stuck_at IS NOT NULL) AS stuck
       FROM chat_runs r JOIN chat_sessions c USING (session_id)
      WHERE r.state IN ('queued', 'running', 'waiting')`,
  );
  if (work === undefined) throw new Error('a count gave no row');
  return work;
}
