import { z } from 'zod';
import type { RunOutcome } from '../domain/activities.ts';
import type { PartWrite } from '../domain/part-data.ts';
import type { Fence, RunEnd, RunErrorCode } from '../domain/runs.ts';
import { call, type Db, jsonb, maybeOne } from './db.ts';
import { ended, lost } from './results.ts';

// Writes of a run. Each statement checks the fence itself.

/** A run and the fence to write with. One object per attempt: renewing the claim changes its fence. */
export interface Claim {
  sessionId: string;
  runSeq: number;
  fence: Fence;
  /** Of a head start: its worker, under whose lease it is in progress. */
  worker?: string;
}

/** Calls a function whose first arguments are session, run and fence. */
export function callClaimed<T>(db: Db, schema: z.ZodType<T>, name: string, claim: Claim, args: unknown[]): Promise<T> {
  return call(db, schema, name, [claim.sessionId, claim.runSeq, claim.fence, ...args]);
}

const runSettlement = z.discriminatedUnion('kind', [ended, lost]);

/**
 * The epoch of a session in which a run can begin: it is queued with nothing ahead of it, in a session that is neither paused
 * nor stuck. Undefined: it cannot.
 */
export function findStartableRun(db: Db, sessionId: string, runSeq: number): Promise<{ epoch: number } | undefined> {
  return maybeOne(
    db,
    z.object({ epoch: z.number() }),
    `SELECT c.epoch FROM chat_runs r JOIN chat_sessions c USING (session_id)
      WHERE r.session_id = $1 AND r.seq = $2 AND r.state = 'queued' AND c.paused_at IS NULL AND c.stuck_at IS NULL
        AND NOT EXISTS (
          SELECT FROM chat_runs ahead
           WHERE ahead.session_id = r.session_id AND ahead.seq < r.seq
             AND ahead.state IN ('queued', 'running', 'waiting'))`,
    [sessionId, runSeq],
  );
}

/**
 * Increases the fence of an attempt's own claim, unless another attempt has the run. Afterwards an earlier write without an
 * answer is either committed or refused. `claim` has the new fence in any case; an overtaken attempt learns it at its next
 * write.
 */
export async function renewClaim(db: Db, claim: Claim): Promise<void> {
  const [epoch, ordinal, attempt, renewal = 0] = claim.fence;
  claim.fence = [epoch, ordinal, attempt, renewal + 1];
  await db.query(
    `UPDATE chat_runs SET fence = $3
      WHERE session_id = $1 AND seq = $2 AND fence[1:3] = ($3::integer[])[1:3] AND fence < $3`,
    [claim.sessionId, claim.runSeq, claim.fence],
  );
}

/** Reports that a head start of this worker is in progress without an activity, has an activity, or has failed. */
export function reportHeadStart(
  db: Db,
  claim: Claim,
  state: 'alive' | 'adopted' | 'failed',
  worker: string,
): Promise<boolean> {
  return callClaimed(db, z.boolean(), 'report_head_start', claim, [state, worker]);
}

/** Who did a step or a tool call, and how. */
export interface WorkDone {
  /** The id of the worker's lease. */
  worker: string;
  /** Of a step the number of the attempt after failures of the provider, from 1; of a tool call 1. */
  attempt: number;
  /** How long it took, in whole milliseconds: of a step from the call of the model on. */
  ms: number;
  /** From the call of the model to its first chunk. */
  first_ms?: number;
}

/** With `at` by Postgres' clock, as all times of a run: the clocks of workers may differ. */
const RETRY_TO_NOTE = `$1, $2, $3, $4::jsonb || jsonb_build_object(
  'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $5::bigint)`;

/** Shows in the status that the run waits for a retry, `delayMs` from now. False: another attempt has the run. */
export function noteRetry(
  db: Db,
  { sessionId, runSeq, fence }: Claim,
  { delayMs, ...retry }: { attempt: number; reason: string; delayMs: number },
): Promise<boolean> {
  return call(db, z.boolean(), 'note_retry', [sessionId, runSeq, fence, jsonb(retry), delayMs], RETRY_TO_NOTE);
}

/** An abnormal end of a run. */
export interface RunSettlement {
  state: Exclude<RunEnd, 'finished'>;
  code?: RunErrorCode;
  /** For the user: what happened, and what to do. */
  message?: string;
  /** The outcome of open tool calls if the end is an error. */
  toolError?: string;
  /** Last parts of the answer if the end is an error, and the metadata of its row if they create it. */
  answer?: { metadata: object | undefined; parts: readonly PartWrite[] } | undefined;
}

/** Ends a run as an error or aborted. Activities pass a fence and may get `lost`; the workflow passes none. */
export function settleRun(
  db: Db,
  run: { sessionId: string; runSeq: number; fence?: Fence },
  end: RunSettlement,
): Promise<RunOutcome | { kind: 'lost' }> {
  return call(db, runSettlement, 'settle_run', [
    run.sessionId,
    run.runSeq,
    run.fence ?? null,
    end.state,
    end.code ?? null,
    end.message ?? null,
    end.toolError ?? (end.state === 'error' ? 'This tool call was interrupted: its outcome is unknown.' : null),
    jsonb(end.answer),
  ]);
}
