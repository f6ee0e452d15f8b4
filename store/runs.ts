import { z } from 'zod';
import type { LoadArgs, LoadedSession, NotBegun, ToolCallRef } from '../domain/commands.ts';
import type { DeltaWrite, PartWrite } from '../domain/part-data.ts';
import { type Fence, RUN_STATES, type RunEnd, type RunErrorCode, type RunState } from '../domain/runs.ts';
import type { Usage } from '../domain/usage.ts';
import { call, type Db, jsonb, maybe } from './db.ts';
import { ended, lost, notBegun, queuedRun, sessionMark, time, toolCallRef } from './results.ts';

// Writes of a run. Each statement checks the fence itself.

const lostPart = z.object({
  id: z.string(),
  index: z.number(),
  type: z.string(),
  data: z.looseObject({ type: z.string() }),
  tool_call_id: z.string().nullable(),
  tool_state: z.string().nullable(),
  /** Text that arrived after the part was last settled. */
  text: z.string().nullable(),
});

const claimedStep = z.object({
  kind: z.literal('claimed'),
  user_id: z.string(),
  project_id: z.string().nullable(),
  agent: z.string(),
  workspace_root: z.string().nullable(),
  model: z.string().nullable(),
  message_id: z.string(),
  answer_id: z.string(),
  /** Tokens of this run so far, without cache reads. */
  tokens: z.number(),
  /** Index of the first part that this step writes. */
  next_index: z.number(),
  /** How long ago the run began, in milliseconds, by Postgres' clock. */
  elapsed_ms: z.number(),
  /** Digest of the turn's system prompt; null before its first step has written anything. */
  digest: z.string().nullable(),
  lost: z.array(lostPart),
});

/** What a step needs besides the messages. */
export type ClaimedStep = z.infer<typeof claimedStep>;

/** A run and the fence to write with. One object per attempt: renewing the claim changes its fence. */
export interface Claim {
  sessionId: string;
  runSeq: number;
  fence: Fence;
}

/** Calls a function whose first arguments are session, run and fence. */
export function callClaimed<T>(db: Db, schema: z.ZodType<T>, name: string, claim: Claim, args: unknown[]): Promise<T> {
  return call(db, schema, name, [claim.sessionId, claim.runSeq, claim.fence, ...args]);
}

const settledStep = z.object({
  kind: z.literal('settled'),
  state: z.enum(RUN_STATES),
  code: z.string().nullable(),
  finish_reason: z.string(),
  model: z.string(),
  tokens: z.number(),
  tool_calls: z.array(toolCallRef),
});
type SettledStep = z.infer<typeof settledStep>;

const stepClaim = z.discriminatedUnion('kind', [claimedStep, settledStep, ...notBegun]);
const stepSettlement = z.discriminatedUnion('kind', [settledStep, lost]);
const runSettlement = z.discriminatedUnion('kind', [ended, lost]);
const streamState = z.enum(['live', 'abort', 'lost']);

const loadedSession = z.object({
  ...sessionMark.shape,
  epoch: z.number(),
  user_id: z.string(),
  agent: z.string(),
  paused: z.boolean(),
  runs: z.array(
    z.object({
      ...queuedRun.shape,
      state: z.enum(['queued', 'running', 'waiting']),
      step: z.number(),
      abort: z.boolean(),
      started_at: time.nullable(),
      open_calls: z.array(toolCallRef),
    }),
  ),
});

/**
 * Everything a workflow needs at its start, under a new epoch; undefined: no such session. A load that is older than the
 * newest one leaves the epoch as it is: its workflow has been replaced, or has been given another worker's answer.
 * @param execution the run id of the workflow
 */
export function loadSession(
  db: Db,
  { session_id, load, asked_at }: LoadArgs,
  execution: string,
): Promise<Omit<LoadedSession, 'settings'> | undefined> {
  return call(db, maybe(loadedSession), 'load_session', [session_id, execution, load, asked_at]);
}

/** Claims a step, unless it is settled, may not begin now, or has a greater fence. */
export function claimStep(
  db: Db,
  claim: Claim,
  { step, startedAt }: { step: number; startedAt: number },
): Promise<ClaimedStep | SettledStep | NotBegun> {
  return call(db, stepClaim, 'claim_step', [claim.sessionId, claim.runSeq, step, claim.fence, startedAt]);
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

/**
 * Stores a batch of an answer. `metadata` creates the answer's row and is given with the first content only.
 * @returns live, abort (stored; stop now) or lost (not stored: another attempt has the run)
 */
export function appendStream(
  db: Db,
  claim: Claim,
  batch: { metadata?: object | undefined; parts: PartWrite[]; deltas: DeltaWrite[] },
): Promise<'live' | 'abort' | 'lost'> {
  const { metadata, parts, deltas } = batch;
  return callClaimed(db, streamState, 'append_stream', claim, [jsonb(metadata), jsonb(parts), jsonb(deltas)]);
}

/** What a settled step writes besides its parts. */
export interface StepSettlement {
  metadata: object;
  parts: PartWrite[];
  nextIndex: number;
  step: number;
  usage: Usage;
  model: string;
  finishReason: string;
  /** Tokens that count against the run's limit. */
  tokens: number;
  costUsd?: number;
  toolCalls: ToolCallRef[];
  /** This step ends the turn: it has no tool calls. */
  end: boolean;
  /** Ends the turn as an error. */
  failure?: { code: RunErrorCode; message: string; toolError: string };
}

/** Settles a step in one transaction: parts, usage, sums, idempotency record, and the end of the run if it is the last. */
export function settleStep(db: Db, claim: Claim, s: StepSettlement): Promise<SettledStep | { kind: 'lost' }> {
  const result = { model: s.model, finish_reason: s.finishReason, tokens: s.tokens };
  const step = { ...result, step: s.step, usage: s.usage, cost_usd: s.costUsd, failure: s.failure };
  const outcome = { ...result, tool_calls: s.toolCalls, end: s.end };
  const written = [jsonb(s.metadata), jsonb(s.parts), s.nextIndex, jsonb(step), jsonb(outcome)];
  return callClaimed(db, stepSettlement, 'settle_step', claim, written);
}

/** Shows in the status that the run waits for a retry; `at` in epoch milliseconds. False: another attempt has the run. */
export function noteRetry(
  db: Db,
  claim: Claim,
  retry: { attempt: number; reason: string; at: number },
): Promise<boolean> {
  return callClaimed(db, z.boolean(), 'note_retry', claim, [jsonb(retry)]);
}

/** An abnormal end of a run. */
export interface RunSettlement {
  state: Exclude<RunEnd, 'finished'>;
  code?: RunErrorCode;
  /** For the user: what happened, and what to do. */
  message?: string;
  /** The outcome of open tool calls if the end is an error. */
  toolError?: string;
}

/** Ends a run as an error or aborted. Activities pass a fence and may get `lost`; the workflow passes none. */
export function settleRun(
  db: Db,
  run: { sessionId: string; runSeq: number; fence?: Fence },
  end: RunSettlement,
): Promise<{ kind: 'ended'; state: RunState; code: string | null } | { kind: 'lost' }> {
  return call(db, runSettlement, 'settle_run', [
    run.sessionId,
    run.runSeq,
    run.fence ?? null,
    end.state,
    end.code ?? null,
    end.message ?? null,
    end.toolError ?? 'This tool call was interrupted: its outcome is unknown.',
  ]);
}
