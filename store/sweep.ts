import { z } from 'zod';
import { PHASES } from '../domain/phases.ts';
import { type Db, many } from './db.ts';

const sleepingRun = z.object({
  session_id: z.string(),
  run_seq: z.number(),
  message_id: z.string(),
  model: z.string().nullable(),
  state: z.enum(['queued', 'running']),
  user_id: z.string(),
  project_id: z.string().nullable(),
  phase: z.enum(PHASES),
  agent: z.string(),
});

/** A run that nobody seems to work on. */
export type SleepingRun = z.infer<typeof sleepingRun>;

/**
 * The first open runs of sessions that nobody seems to work on: queued for over `queuedMs` with nothing ahead of them, or
 * running with nothing written for over `silentMs`. At most `limit` of either, longest asleep first: a run that streams
 * for long looks silent, and must not keep those that wait out of sight. Stuck ones are awake: no wake-up gets them ahead.
 * `known` are left out: else those that no wake-up gets ahead would keep all others out of sight.
 */
export function sleepingRuns(
  db: Db,
  {
    queuedMs,
    silentMs,
    limit,
    known,
  }: {
    queuedMs: number;
    silentMs: number;
    limit: number;
    known: readonly Pick<SleepingRun, 'session_id' | 'run_seq'>[];
  },
): Promise<SleepingRun[]> {
  return many(
    db,
    sleepingRun,
    `WITH known AS (
       SELECT * FROM unnest($4::text[], $5::integer[]) AS known(session_id, seq)
     ), asleep AS (
       (SELECT r.* FROM chat_runs r JOIN chat_sessions c USING (session_id)
         WHERE r.state = 'queued' AND r.updated_at < clock_timestamp() - $1::float8 * interval '1 millisecond'
           AND c.paused_at IS NULL AND c.stuck_at IS NULL
           AND NOT EXISTS (SELECT FROM known WHERE known.session_id = r.session_id AND known.seq = r.seq)
           AND NOT EXISTS (
             SELECT FROM chat_runs ahead WHERE ahead.session_id = r.session_id AND ahead.seq < r.seq
                AND ahead.state IN ('queued', 'running', 'waiting'))
         ORDER BY r.updated_at LIMIT $3)
       UNION ALL
       (SELECT r.* FROM chat_runs r
         WHERE r.state = 'running' AND r.updated_at < clock_timestamp() - $2::float8 * interval '1 millisecond'
           AND NOT EXISTS (SELECT FROM chat_sessions c WHERE c.session_id = r.session_id AND c.stuck_at IS NOT NULL)
           AND NOT EXISTS (SELECT FROM known WHERE known.session_id = r.session_id AND known.seq = r.seq)
         ORDER BY r.updated_at LIMIT $3)
     )
     SELECT r.session_id, r.seq AS run_seq, r.message_id, r.model, r.state, s.user_id, s.project_id, s.phase, c.agent
       FROM asleep r JOIN chat_sessions c USING (session_id) JOIN sessions s USING (session_id)`,
    [queuedMs, silentMs, limit, known.map((run) => run.session_id), known.map((run) => run.run_seq)],
  );
}
