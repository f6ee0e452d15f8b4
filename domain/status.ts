import type { RunState, SessionStatus } from './runs.ts';

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
    started_at: number;
    retry: { attempt: number; reason: string; at: number } | null;
  } | null;
  /** The message of the last run that ended in an error. */
  error_message: string | null;
}

const STUCK = 'the deployed code cannot go on with this session, which waits for code that can';

/** A session's status. */
export function statusOf({ paused, stuck, run, error_message }: StatusRow): SessionStatus {
  if (stuck && run?.state !== 'waiting') {
    if (run === null) return { state: 'error', message: STUCK };
    return { state: 'retrying', message: STUCK, started_at: run.started_at, message_id: run.message_id };
  }
  if (run === null || (paused && run.state === 'queued')) {
    return paused ? { state: 'error', message: error_message ?? 'something went wrong' } : { state: 'idle' };
  }
  const { message_id, started_at, retry } = run;
  if (run.state === 'waiting') return { state: 'waiting', message_id };
  if (!retry) return { state: 'busy', started_at, message_id };
  return { state: 'retrying', attempt: retry.attempt, message: retry.reason, started_at, message_id };
}
