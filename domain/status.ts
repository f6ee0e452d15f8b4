import { COMPACTING, type Question, type RunState, type SessionStatus, type Wait } from './runs.ts';

/** The rows behind a status. Times in epoch milliseconds. */
export interface StatusRow {
  /** An error has stopped the queue until the next message. */
  paused: boolean;
  /** The deployed code cannot replay the session's workflow. */
  stuck: boolean;
  /** The run in flight, else the first queued one. */
  run: {
    state: Extract<RunState, 'queued' | 'running' | 'waiting'>;
    message_id: string;
    /** Null: its state is not waiting. */
    waits_for: Wait | null;
    started_at: number;
    retry: { attempt: number; reason: string; at: number } | null;
    compacting: boolean;
  } | null;
  /** The message of the last run that ended in an error. */
  error_message: string | null;
  /** Calls of children that wait for approvals or pages; null: there are none. */
  questions: Question[] | null;
}

const STUCK = 'the deployed code cannot go on with this session, which waits for code that can';

/** A session's status. It waits as well while one of its children does. */
export function statusOf(row: StatusRow): SessionStatus {
  const { run, questions } = row;
  if (row.stuck || questions === null) return ownStatus(row);
  return { state: 'waiting', ...(run && { message_id: run.message_id }), questions };
}

/** What a session waits for, itself or in its children: the user's approval, if any is missing. Null: its status is not waiting. */
export function waitOf({ stuck, run, questions }: StatusRow): Wait | null {
  const waits = new Set([run?.waits_for, ...(stuck ? [] : (questions ?? []).map((asked) => asked.for))]);
  if (waits.has('approval')) return 'approval';
  return waits.has('output') ? 'output' : null;
}

function ownStatus({ paused, stuck, run, error_message }: StatusRow): SessionStatus {
  if (stuck && run?.state !== 'waiting') {
    if (run === null) return { state: 'error', message: STUCK };
    return { state: 'retrying', message: STUCK, started_at: run.started_at, message_id: run.message_id };
  }
  if (run === null || (paused && run.state === 'queued')) {
    return paused ? { state: 'error', message: error_message ?? 'something went wrong' } : { state: 'idle' };
  }
  const { message_id, started_at, retry, compacting } = run;
  if (run.state === 'waiting') return { state: 'waiting', message_id };
  if (compacting) return { state: 'busy', message: COMPACTING, started_at, message_id };
  if (!retry) return { state: 'busy', started_at, message_id };
  return { state: 'retrying', attempt: retry.attempt, message: retry.reason, started_at, message_id };
}
