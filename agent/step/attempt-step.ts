import type { UIMessage, UIMessageChunk } from 'ai';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { RunErrorCode, RunFailure } from '../../domain/runs.ts';
import { type AgentDefinition, limitsOf, type ToolDefinition } from '../definition/define.ts';
import type { ResolvedModel } from '../models/models.ts';
import {
  retryDelayMs,
  classifyProviderError,
  failureOfFinish,
  type ProviderFailure,
} from '../provider-failures/classify-provider-error.ts';
import { finishReport, type ProviderReport, providerReport } from '../provider-failures/provider-report.ts';
import { answerTooLong } from '../provider-stream/answer-size.ts';
import type { StopReason, StopSignal } from '../stop-signal.ts';
import { type CompletedStep, completedStep } from './completed-step.ts';
import { limitFailure, limitReached } from './limits.ts';
import { type StepResult, streamModelCall } from './stream-model-call.ts';

// One attempt at a step, for workers and for runs in memory. A `StepRecorder` stores it, in Postgres or in memory.

/** One attempt at a step. */
export interface StepAttempt {
  agent: AgentDefinition;
  /** Settled steps of the run. */
  step: number;
  /** Tokens that the run has spent, without cache reads. */
  tokens: number;
  /** The number of this attempt, from 1. */
  attempt: number;
  /** Those before it that ended because the store of attachments was away, before the provider was asked. */
  waited: number;
  /** The maximum of those that ask the provider. */
  attempts: number;
  /** Has the run's remaining time. */
  stop: StopSignal;
}

/** Input of a model call. */
export interface ModelCall {
  model: ResolvedModel;
  system: string;
  messages: UIMessage[];
  /** The tools that the model can call. */
  tools: readonly ToolDefinition[];
  /** Stands after the messages, in this call only. */
  note?: string | undefined;
}

export interface Retry {
  /** The attempt that failed. */
  attempt: number;
  code: RunErrorCode;
  /** Our own message, never the provider's. */
  reason: string;
  delayMs: number;
}

/**
 * The outcome of an attempt that did not complete its step. Its streamed content stays visible to readers. `report`: the
 * provider failed; `discarded`: with a whole answer.
 */
export type BrokenStep =
  | { kind: 'error'; failure: RunFailure; report?: ProviderReport; discarded?: StepResult }
  | { kind: 'retry'; retry: Retry; report?: ProviderReport; discarded?: StepResult }
  | { kind: Extract<StopReason, 'abort' | 'lost' | 'shutdown'> };

/** Stores an attempt. `Next` is the result for its caller. */
export interface StepRecorder<Next> {
  /**
   * Assembles the model call, or says what happens instead of it.
   * @throws {PerdureError} the model or the workspace cannot be used
   */
  prepare(): Promise<ModelCall | { instead: Next }>;
  /** Records one chunk of the model. A promise delays the next one. */
  add(chunk: UIMessageChunk): void | Promise<void>;
  /** The last chunk was added. @throws if a batch could not be stored: no writes after a lost batch */
  close(): Promise<void>;
  complete(step: CompletedStep): Promise<Next>;
  breakOff(end: BrokenStep): Promise<Next>;
}

/** Makes one attempt at a step: checks limits, calls the model, records the result. Throws storage errors only. */
export async function attemptStep<Next>(attempt: StepAttempt, recorder: StepRecorder<Next>): Promise<Next> {
  const { agent, stop } = attempt;
  const limits = limitsOf(agent);
  const limit = limitReached(limits, { ...attempt, timeLeftMs: stop.timeLeftMs });
  if (limit !== undefined) return recorder.breakOff({ kind: 'error', failure: limitFailure(limit, limits) });
  const call = await prepared(recorder, stop);
  if (call === undefined) return recorder.breakOff(brokenStep(attempt, stop.signal.reason));
  if ('instead' in call) return call.instead;
  if ('kind' in call) return recorder.breakOff(endOf(attempt, call));
  if (agent.timeout !== undefined) stop.after(agent.timeout, 'timeout');
  let result: StepResult | undefined;
  let thrown: unknown;
  try {
    result = await callModel(attempt, call, recorder);
  } catch (error) {
    thrown = error;
  }
  await recorder.close();
  if (result === undefined || stop.signal.aborted) return recorder.breakOff(brokenStep(attempt, thrown));
  const { finishReason, rawFinishReason } = result;
  const failure = failureOfFinish(finishReason);
  if (failure?.kind === 'retryable') {
    const end = endOf(attempt, failure, finishReport(finishReason, rawFinishReason));
    return recorder.breakOff({ ...end, discarded: result });
  }
  return recorder.complete(completedStep(attempt, call, result));
}

/** Undefined: the run was stopped meanwhile. */
async function prepared<Next>(
  recorder: StepRecorder<Next>,
  stop: StopSignal,
): Promise<ModelCall | { instead: Next } | ProviderFailure | undefined> {
  try {
    return await recorder.prepare();
  } catch (error) {
    if (stop.signal.aborted && error === stop.signal.reason) return undefined;
    if (error instanceof PerdureError) return classifyProviderError(error);
    throw error;
  }
}

async function callModel<Next>(
  { agent, stop }: StepAttempt,
  call: ModelCall,
  recorder: StepRecorder<Next>,
): Promise<StepResult> {
  const chunks = streamModelCall({
    ...call,
    signal: stop.signal,
    temperature: agent.temperature,
    maxOutputTokens: agent.max_output_tokens ?? call.model.ownMaxOutput,
    newToolCallId: () => newId('call'),
  });
  for (;;) {
    const next = await chunks.next();
    if (next.done) return next.value;
    const held = recorder.add(next.value);
    if (held !== undefined) await held;
  }
}

const LATE = {
  kind: 'retryable',
  code: 'ProviderUnavailable',
  reason: 'the model did not answer in time',
} as const satisfies ProviderFailure;

function brokenStep(attempt: StepAttempt, error: unknown): BrokenStep {
  switch (attempt.stop.why) {
    case 'abort':
    case 'lost':
    case 'shutdown':
      return { kind: attempt.stop.why };
    case 'wall_clock':
      return { kind: 'error', failure: limitFailure('wall_clock', limitsOf(attempt.agent)) };
    case 'timeout':
      return endOf(attempt, LATE, { error_type: 'timeout', message: LATE.reason });
    default: {
      const failure = answerTooLong(error);
      return failure
        ? { kind: 'error', failure }
        : endOf(attempt, classifyProviderError(error), providerReport(error), error);
    }
  }
}

/** The outcome of a provider failure: a retry while attempts and time are left, else an error. */
function endOf(
  { attempt, waited, attempts, stop }: StepAttempt,
  failure: ProviderFailure,
  report?: ProviderReport,
  cause?: unknown,
): Extract<BrokenStep, { kind: 'error' | 'retry' }> {
  const reported = report && { report };
  if (failure.kind === 'final') {
    const { kind: _, ...final } = failure;
    return { kind: 'error', failure: { ...final, cause }, ...reported };
  }
  const { code, reason, refused } = failure;
  // A provider may keep failing because of this request; the store of attachments only is away.
  const isWait = code === 'AttachmentsUnavailable';
  const failures = isWait ? waited + 1 : attempt - waited;
  const isLast = failures >= attempts && !isWait;
  const delayMs = retryDelayMs(failures, failure.retryAfterMs);
  if (!isLast && delayMs < stop.timeLeftMs)
    return { kind: 'retry', retry: { attempt, code, reason, delayMs }, ...reported };
  const why = isLast
    ? `gave up after ${failures} ${failures === 1 ? 'attempt' : 'attempts'}`
    : 'it requires a longer wait than the turn has time left';
  const then = isWait ? 'have the message answered again later' : 'send a new message later';
  const message = `${reason}; ${why}: ${then}.`;
  return { kind: 'error', failure: { code, message, ...(refused && { refused }) }, ...reported };
}
