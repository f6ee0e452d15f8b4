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
 * Claims the runs whose check is due, at most `limit` queued, running and waiting ones each: a message queued for 2 s with
 * nothing ahead of it, a run of which no workflow may know, one that wrote nothing for 30 s, or one that has waited too long for
 * a page. No other sweeper gets one of the first two kinds again for 10 s, another one for 30 s. Runs that cannot continue (behind an open run, in a paused queue, of a
 * stuck session) cost nothing.
 */
export function claimDueRuns(db: Db, limit: number): Promise<DueRun[]> {
  return many(db, dueRun, 'SELECT * FROM claim_due_runs($1)', [limit]);
}

const waitingRun = z.object({ session: z.string(), run: z.number() });

/** A queued run that waits in a worker. */
export type WaitingRun = z.infer<typeof waitingRun>;

/**
 * Postpones the checks of queued runs by ten seconds, for the worker in which they wait. Returns those that it has postponed:
 * not those that another worker has postponed in the last five seconds, or is about to change.
 */
export function postponeChecks(db: Db, runs: readonly WaitingRun[]): Promise<WaitingRun[]> {
  const sql = 'SELECT * FROM postpone_checks($1, $2)';
  return many(db, waitingRun, sql, [runs.map(({ session }) => session), runs.map(({ run }) => run)]);
}
