import { z } from 'zod';
import { PHASES } from '../domain/phases.ts';
import { type Db, many } from './db.ts';

const dueRun = z.object({
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

/** A run to check: its session may have been forgotten. */
export type DueRun = z.infer<typeof dueRun>;

/**
 * Claims the runs whose check is due, at most `limit` queued and `limit` running ones: a message queued for 2 s with
 * nothing ahead of it, or a run that wrote nothing for 30 s. No other sweeper gets a queued run again for 10 s, a running
 * one for 30 s. Runs that cannot continue (behind an open run, in a paused queue, of a stuck session) cost nothing.
 */
export function claimDueRuns(db: Db, limit: number): Promise<DueRun[]> {
  return many(db, dueRun, 'SELECT * FROM claim_due_runs($1)', [limit]);
}
