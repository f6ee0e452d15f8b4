import type { RunState, SessionStatus } from './runs.ts';

/** What the rows say that a status is made of. Times in epoch milliseconds. */
export interface StatusRow {
  /** A hard error has stopped the queue until the next submission. */
  paused: boolean;
  /** The deployed code cannot carry on the session's workflow. */
  stuck: boolean;
  /** The run at work, else the first that is queued. */
  run: {
    state: Extract<RunState, 'queued' | 'running' | 'waiting'>;
    message_id: string;
    started_at: number;
    retry: { attempt: number; reason: string; at: number } | null;
  } | null;
  /** What went wrong in the last run that ended in an error. */
  error_message: string | null;
}

const STUCK = 'the deployed code cannot go on with this session, which waits for code that can';

/** What a session is doing, from its rows. */
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
