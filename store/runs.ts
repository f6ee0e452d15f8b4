import { z } from 'zod';
import type { LoadArgs, LoadedSession, NotBegun, RunOutcome, ToolCallRef } from '../domain/commands.ts';
import type { PartWrite } from '../domain/part-data.ts';
import { type Fence, RUN_STATES, type RunEnd, type RunErrorCode } from '../domain/runs.ts';
import type { Usage } from '../domain/usage.ts';
import { call, callAndNotify, type Db, jsonb, maybe, maybeOne } from './db.ts';
import {
  childRun,
  ended,
  lost,
  notBegun,
  queuedRun,
  sessionContext,
  sessionMark,
  time,
  toolCallRef,
  underway,
} from './results.ts';
import { viewPart } from './view.ts';

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

const reportedStep = z.object({
  message_id: z.string(),
  /** Steps of that answer, this one included. */
  steps: z.number(),
  model: z.string(),
  /** What its provider counted, all five numbers. */
  tokens: z.number(),
  /** The conversation before it is still the same. */
  is_current: z.boolean(),
});

/** A settled step with what its provider counted. */
export type ReportedStep = z.infer<typeof reportedStep>;

const claimedStep = z.object({
  kind: z.literal('claimed'),
  user_id: z.string(),
  project_id: z.string().nullable(),
  agent: z.string(),
  workspace_root: z.string().nullable(),
  ...sessionContext,
  model: z.string().nullable(),
  /** Of the model; null: the model as it is. */
  variant: z.string().nullable(),
  message_id: z.string(),
  answer_id: z.string(),
  /** Tokens of this run and of its children so far, without cache reads. */
  tokens: z.number(),
  /** Tokens that the turns above a child still have; null: there are none. */
  tokens_left: z.number().nullable(),
  /** Index of the first part that this step writes. */
  next_index: z.number(),
  /** How long ago the run began, in milliseconds, by Postgres' clock. */
  elapsed_ms: z.number(),
  /** Digest of the turn's system prompt; null before its first step has written anything. */
  digest: z.string().nullable(),
  /** Whether a function made the agent's prompt that is stored under this digest. */
  evaluated: z.boolean(),
  /** The newest settled step that the model sees. */
  reported: reportedStep.nullable(),
  /** Whether files are to be restored before the turn begins. */
  restoring: z.boolean(),
  /** What the run's newest compaction came to; null: none. */
  compaction: z.string().nullable(),
  /** What the model sees of the conversation; null: it has more than 32 MiB, which no provider accepts. */
  view: z.array(viewPart).nullable(),
  lost: z.array(lostPart),
});

/** What a step needs. */
export type ClaimedStep = z.infer<typeof claimedStep>;
/** A step whose conversation can be loaded. */
export type LoadedStep = ClaimedStep & { view: z.infer<typeof viewPart>[] };

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

const settledStep = z.object({
  kind: z.literal('settled'),
  state: z.enum(RUN_STATES),
  code: z.string().nullable(),
  finish_reason: z.string(),
  model: z.string(),
  tokens: z.number(),
  tool_calls: z.array(toolCallRef),
  /** Of children that ended with the run. */
  children: z.array(childRun).exactOptional(),
});
type SettledStep = z.infer<typeof settledStep>;

const byHand = z.object({ kind: z.literal('compact'), reason: z.enum(['compaction', 'prune']) });
const stepClaim = z.discriminatedUnion('kind', [claimedStep, settledStep, byHand, underway, ...notBegun]);
const stepSettlement = z.discriminatedUnion('kind', [settledStep, lost]);
const runSettlement = z.discriminatedUnion('kind', [ended, lost]);

const loadedSession = z.object({
  ...sessionMark.shape,
  epoch: z.number(),
  user_id: z.string(),
  agent: z.string(),
  paused: z.boolean(),
  is_child: z.boolean(),
  /** Run id of the execution whose load was the newest. */
  newest: z.string(),
  runs: z.array(
    z.object({
      ...queuedRun.shape,
      state: z.enum(['queued', 'running', 'waiting']),
      step: z.number(),
      abort: z.boolean(),
      started_at: time.nullable(),
      wait_ms: z.number().exactOptional(),
      open_calls: z.array(toolCallRef),
    }),
  ),
});

/**
 * Everything a workflow needs at its start, under a new epoch; undefined: no such session. A load that is older than the
 * newest one leaves the epoch as it is: its workflow has been replaced, or has been given another worker's answer.
 * @param execution the run id of the workflow
 * @param isCurrent whether that run is the workflow's newest one; asked if it is not known to have replaced the one that loaded last
 */
export async function loadSession(
  db: Db,
  { session_id, load, asked_at, continues }: LoadArgs,
  execution: string,
  isCurrent: () => Promise<boolean>,
): Promise<Omit<LoadedSession, 'settings'> | undefined> {
  let replaces = continues ?? '';
  for (;;) {
    const args = [session_id, execution, load, asked_at, replaces];
    const found = await call(db, maybe(loadedSession), 'load_session', args);
    if (found === undefined) return undefined;
    const { newest, ...loaded } = found;
    // Asked after the row was read: whoever has loaded before is not newer. Whoever loads meanwhile may be.
    if (newest === execution || !(await isCurrent())) return loaded;
    replaces = newest;
  }
}

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

/** A head start in another process does the work, and its outcome is to be awaited. */
export type Underway = z.infer<typeof underway>;

/** Claims a step, unless it is settled, may not begin now, is underway, or has a greater fence. */
export function claimStep(
  db: Db,
  claim: Claim,
  { step, startedAt }: { step: number; startedAt: number },
): Promise<ClaimedStep | SettledStep | z.infer<typeof byHand> | NotBegun | Underway> {
  const { sessionId, runSeq, fence, worker } = claim;
  return call(db, stepClaim, 'claim_step', [sessionId, runSeq, step, fence, startedAt, worker ?? null]);
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
export interface Work {
  /** The id of the worker's lease. */
  worker: string;
  /** Of a step the number of the attempt after failures of the provider, from 1; of a tool call 1. */
  attempt: number;
  /** How long it took, in whole milliseconds: of a step from the call of the model on. */
  ms: number;
  /** From the call of the model to its first chunk. */
  first_ms?: number;
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
  work?: Work;
  /** Ends the turn as an error. */
  failure?: { code: RunErrorCode; message: string; toolError: string };
}

/**
 * Settles a step in one transaction: parts, usage, sums, idempotency record, and the end of the run if it is the last.
 * @param notify sends the pointer `stream`, too
 */
export function settleStep(
  db: Db,
  claim: Claim,
  s: StepSettlement,
  { notify }: { notify: boolean },
): Promise<SettledStep | { kind: 'lost' }> {
  const result = { model: s.model, finish_reason: s.finishReason, tokens: s.tokens };
  const step = { ...result, step: s.step, usage: s.usage, cost_usd: s.costUsd, work: s.work, failure: s.failure };
  const outcome = { ...result, tool_calls: s.toolCalls, end: s.end };
  const written = [jsonb(s.metadata), jsonb(s.parts), s.nextIndex, jsonb(step), jsonb(outcome)];
  const { sessionId, runSeq, fence } = claim;
  return (notify ? callAndNotify : call)(db, stepSettlement, 'settle_step', [sessionId, runSeq, fence, ...written]);
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
