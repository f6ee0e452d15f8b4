// Where a session that makes no progress stands: its open runs, and whether its workflow waits for an activity, for a worker or
// for nothing. Histories say that too late: they are kept when all is over.
import type { Client } from '@temporalio/client';
import type pg from 'pg';
import { snapshotQuery } from '../../workflows/definitions.ts';

const ANSWER_MS = 5_000;

/** A session's open runs and its workflow; of what Temporal does not answer in time the error. */
export async function standingOf(db: pg.Pool, { connection, workflow }: Client, sessionId: string): Promise<object> {
  const handle = workflow.getHandle(sessionId);
  const answer = <T>(ask: () => Promise<T>) =>
    connection.withDeadline(Date.now() + ANSWER_MS, ask).catch((error: unknown) => String(error));
  const [{ rows: runs }, described, snapshot] = await Promise.all([
    db.query(
      `SELECT seq, state, step, fence, head_start_at, head_start_worker, retry, waiting, check_at, updated_at, now()
         FROM chat_runs WHERE session_id = $1 AND state IN ('queued', 'running', 'waiting') ORDER BY seq`,
      [sessionId],
    ),
    answer(() => handle.describe()),
    answer(() => handle.query(snapshotQuery)),
  ]);
  if (typeof described === 'string') return { runs, workflow: described, snapshot };
  const { status, runId, historyLength, raw } = described;
  const activities = (raw.pendingActivities ?? []).map((activity) => ({
    type: activity.activityType?.name,
    attempt: activity.attempt,
    state: activity.state,
    worker: activity.lastWorkerIdentity,
    scheduled: dateOf(activity.scheduledTime),
    started: dateOf(activity.lastStartedTime),
    heartbeat: dateOf(activity.lastHeartbeatTime),
    failure: activity.lastFailure?.message,
  }));
  const isTaskPending = Boolean(raw.pendingWorkflowTask);
  return { runs, workflow: { status: status.name, runId, historyLength, isTaskPending, activities }, snapshot };
}

function dateOf(time: { seconds?: unknown } | null | undefined): Date | undefined {
  return time ? new Date(Number(time.seconds) * 1_000) : undefined;
}
