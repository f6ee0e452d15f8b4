import type { RunState, SessionStatus } from './runs.ts';

/** What the rows say that a status is made of. Times in epoch milliseconds. */
export interface StatusRow {
  /** A hard error has stopped the queue until the next submission. */
  paused: boolean;
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

/** What a session is doing, from its rows. */
export function statusOf({ paused, run, error_message }: StatusRow): SessionStatus {
  if (run === null || (paused && run.state === 'queued')) {
    return paused ? { state: 'error', message: error_message ?? 'something went wrong' } : { state: 'idle' };
  }
  const { message_id, started_at, retry } = run;
  if (run.state === 'waiting') return { state: 'waiting', message_id };
  if (!retry) return { state: 'busy', started_at, message_id };
  return { state: 'retrying', attempt: retry.attempt, message: retry.reason, started_at, message_id };
}
