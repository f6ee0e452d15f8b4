import { z } from 'zod';
import type { NotBegun, ToolCallRef } from '../domain/activities.ts';
import type { PartWrite } from '../domain/part-data.ts';
import { RUN_STATES, type RunErrorCode } from '../domain/runs.ts';
import type { Usage } from '../domain/usage.ts';
import { call, callAndNotify, type Db, jsonb } from './db.ts';
import { childRunRow, lost, notBegun, sessionContext, toolCallRow, underway } from './results.ts';
import type { Claim, WorkDone } from './runs.ts';
import { viewPart } from './view-messages.ts';

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

const settledStep = z.object({
  kind: z.literal('settled'),
  state: z.enum(RUN_STATES),
  code: z.string().nullable(),
  finish_reason: z.string(),
  model: z.string(),
  tokens: z.number(),
  tool_calls: z.array(toolCallRow),
  /** Of children that ended with the run. */
  children: z.array(childRunRow).exactOptional(),
});
type SettledStep = z.infer<typeof settledStep>;

const byHand = z.object({ kind: z.literal('compact'), reason: z.enum(['compaction', 'prune']) });
const stepClaim = z.discriminatedUnion('kind', [claimedStep, settledStep, byHand, underway, ...notBegun]);
const stepSettlement = z.discriminatedUnion('kind', [settledStep, lost]);

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
  work?: WorkDone;
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
