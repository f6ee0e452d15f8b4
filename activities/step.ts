import { ApplicationFailure, Context } from '@temporalio/activity';
import { type AgentDefinition, type Limits, limitsOf } from '../agent/define.ts';
import type { ResolvedModel } from '../agent/models.ts';
import { backoffMs, classifyProviderError, failureOfFinish, type ProviderFailure } from '../agent/provider-errors.ts';
import { type StepResult, streamStep } from '../agent/step.ts';
import type { NotBegun, RunOutcome, StepArgs, StepOutcome, ToolCallRef } from '../domain/commands.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { retryMessage } from '../domain/runs.ts';
import { appendStream, type Claim, type ClaimedStep, claimStep, noteRetry, settleRun, settleStep } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { Flusher } from './flusher.ts';
import { limitMessage, limitReached } from './limits.ts';
import { type StepPrompt, stepPrompt } from './prompt.ts';
import { Recorder } from './recorder.ts';
import { StopSignal } from './stop.ts';

/** One step at work: what it was claimed with and what it writes through. */
interface Work {
  context: ActivityContext;
  args: StepArgs;
  claim: Claim;
  claimed: ClaimedStep;
  agent: AgentDefinition;
  limits: Limits;
  stop: StopSignal;
  recorder: Recorder;
}

/**
 * One model call of a run, from claim to settlement. Its receipt is the run's `last_step`: asked again for a settled
 * step, it answers what was settled. Never returns content.
 */
export async function makeStep(context: ActivityContext, args: StepArgs): Promise<StepOutcome> {
  const fence = [args.epoch, args.ordinal, Context.current().info.attempt] as const;
  const claim = { sessionId: args.session_id, runSeq: args.run_seq, fence };
  const claimed = await claimStep(context.db, claim, { step: args.step, startedAt: args.started_at });
  if (claimed.kind !== 'claimed') return claimed;
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'status' });
  const agent = agentOf(context, claimed.agent);
  if (agent === undefined) return failRun(context, claim, agentMissing(context, claimed.agent));
  const limits = limitsOf(agent);
  const deadline = claimed.started_at + limits.wall_clock_ms;
  const limit = limitReached(limits, { step: args.step, tokens: claimed.tokens, deadline });
  if (limit !== undefined) return failRun(context, claim, { code: 'LimitReached', message: limitMessage(limit, limits) });
  using stop = new StopSignal(
    { sessionId: args.session_id, runSeq: args.run_seq, deadline, heartbeatMs: context.settings.heartbeatTimeoutMs / 4 },
    context.bus,
  );
  if (agent.timeout !== undefined) stop.after(agent.timeout, 'timeout');
  const recorder = new Recorder(claimed.next_index);
  await recorder.interrupt(claimed.lost);
  return speak({ context, args, claim, claimed, agent, limits, stop, recorder });
}

/** Calls the model and records what it says as it says it. */
async function speak(work: Work): Promise<StepOutcome> {
  const { context, claimed, agent, stop } = work;
  let flusher: Flusher | undefined;
  try {
    const model = context.models.resolve(claimed.model ?? agent.model ?? context.models.defaultRef);
    const prompt = await stepPrompt(context, claimed, { sessionId: work.claim.sessionId, agent, model });
    const writer = (flusher = flusherOf(work, prompt, model));
    writer.chunk();
    const result = await record(work, prompt, model, writer);
    await writer.stop();
    stop.signal.throwIfAborted();
    await prompt.kept;
    return await settle(work, prompt, result);
  } catch (error) {
    await flusher?.stop();
    return stop.signal.aborted ? stopped(work, error) : failed(work, error);
  }
}

async function record(work: Work, prompt: StepPrompt, model: ResolvedModel, flusher: Flusher): Promise<StepResult> {
  const { agent, stop, recorder } = work;
  const chunks = streamStep({
    model,
    system: prompt.system,
    messages: prompt.messages,
    tools: agent.tools,
    signal: stop.signal,
    temperature: agent.temperature,
    maxOutputTokens: agent.max_output_tokens,
    newToolCallId: () => newId('call'),
  });
  for (;;) {
    const next = await chunks.next();
    if (next.done) return next.value;
    recorder.add(next.value);
    flusher.chunk();
  }
}

/** Writes batches under the claim; the first content brings the answer's row. */
function flusherOf({ context, claim, stop, recorder }: Work, prompt: StepPrompt, model: ResolvedModel): Flusher {
  const { db, bus, settings } = context;
  let metadata: object | undefined = { system_prompt_digest: prompt.digest, model: model.ref };
  return new Flusher(recorder, { ms: settings.saveBufferMs, size: settings.saveBufferSize }, {
    land: async (batch) => {
      const landing = await appendStream(db, claim, { metadata, ...batch });
      metadata = undefined;
      if (landing !== 'lost') bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
      return landing;
    },
    stopped: (landing) => stop.fire(landing),
    failed: (error) => stop.fire('failed', error),
  });
}

async function settle(work: Work, prompt: StepPrompt, result: StepResult): Promise<StepOutcome> {
  const { context, args, claim, recorder } = work;
  const failure = failureOfFinish(result.finishReason);
  const tokens = result.usage.input + result.usage.output + result.usage.reasoning + result.usage.cache_write;
  const costUsd = context.hooks.cost?.({ model: result.model, usage: result.usage });
  const outcome = await settleStep(context.db, claim, {
    metadata: { system_prompt_digest: prompt.digest, model: result.model },
    parts: recorder.take().parts,
    nextIndex: recorder.nextIndex,
    step: args.step,
    usage: result.usage,
    model: result.model,
    finishReason: result.finishReason,
    tokens,
    ...(costUsd === undefined ? {} : { costUsd }),
    toolCalls: callsToRun(work.agent, result),
    end: result.toolCalls.length === 0 && failure === undefined,
  });
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
  if (outcome.kind === 'lost') return outcome;
  context.metrics.stepSettled(result.model, result.usage);
  if (failure !== undefined) return failed(work, failure);
  return outcome;
}

/** The calls that a tool is to run; those of bad input have their outcome. A name that no tool has enters no history. */
function callsToRun(agent: AgentDefinition, result: StepResult): ToolCallRef[] {
  const names = new Set(agent.tools.map((tool) => tool.name));
  return result.toolCalls
    .filter((call) => call.invalid !== true)
    .map((call) => ({ tool_call_id: call.toolCallId, name: names.has(call.toolName) ? call.toolName : 'unknown' }));
}

/** What becomes of a step whose signal fired. Its words stay as the user saw them. */
async function stopped(work: Work, error: unknown): Promise<StepOutcome> {
  const { context, claim, stop, recorder, limits } = work;
  switch (stop.why) {
    case 'lost':
      context.log.warn({ session: claim.sessionId, run: claim.runSeq, fence: claim.fence }, 'overtaken: this attempt ends');
      return { kind: 'lost' };
    case 'abort':
      await recorder.freeze();
      await landRest(work);
      return { kind: 'abort' };
    case 'wall_clock':
      await landRest(work);
      return failRun(context, claim, { code: 'LimitReached', message: limitMessage('wall_clock', limits) });
    case 'timeout':
      return failed(work, {
        kind: 'retryable',
        code: 'ProviderUnavailable',
        reason: 'the model did not answer in time',
      });
    case 'shutdown':
      await landRest(work);
      throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
    case 'failed':
      throw stop.signal.reason.cause ?? error;
    default:
      throw error;
  }
}

async function landRest({ context, claim, recorder }: Work): Promise<void> {
  if (!recorder.dirty) return;
  // Nothing but `lost` can come of it, and then somebody else has the last word.
  await appendStream(context.db, claim, recorder.take());
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
}

/** A provider's failure in passing is a value, for the workflow to wait and try again; a final one ends the run. */
async function failed(work: Work, error: unknown): Promise<StepOutcome> {
  const { context, args, claim } = work;
  if (isDatabaseError(error)) throw error;
  const failure = isFailure(error) ? error : classifyProviderError(error);
  if (failure.kind === 'final') {
    if (failure.code === 'Internal') context.log.error({ err: error, session: claim.sessionId, run: claim.runSeq }, 'a step failed');
    await landRest(work);
    return failRun(context, claim, failure);
  }
  await landRest(work);
  if (args.attempt >= context.settings.providerAttempts) {
    const message = `${failure.reason}; gave up after ${args.attempt} attempts: send the message again later.`;
    return failRun(context, claim, { code: failure.code, message });
  }
  const delay = backoffMs(args.attempt, failure.retryAfterMs);
  const retry = { attempt: args.attempt, reason: retryMessage(failure.reason, delay), at: Date.now() + delay };
  if (!(await noteRetry(context.db, claim, retry))) return { kind: 'lost' };
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'status' });
  return { kind: 'retry', code: failure.code, delay_ms: delay };
}

function isFailure(value: unknown): value is ProviderFailure {
  return typeof value === 'object' && value !== null && 'kind' in value && !(value instanceof Error);
}

/** Postgres' own errors have an SQLSTATE and a severity; connection errors of its client come from the pool. */
function isDatabaseError(error: unknown): boolean {
  return error instanceof Error && ('severity' in error || error.stack?.includes('pg-pool') === true);
}

async function failRun(
  context: ActivityContext,
  claim: Claim,
  end: { code: Extract<RunErrorCodeOf, string>; message: string },
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const outcome = await settleRun(context.db, claim, {
    state: 'error',
    code: end.code,
    message: end.message,
    toolError: 'The turn ended before this tool call could run.',
  });
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
  return outcome;
}

type RunErrorCodeOf = import('../domain/runs.ts').RunErrorCode;

function agentOf(context: ActivityContext, id: string): AgentDefinition | undefined {
  return context.agents.list().find((agent) => agent.id === id);
}

function agentMissing(context: ActivityContext, id: string): { code: 'AgentNotConfigured'; message: string } {
  try {
    context.agents.get(id);
  } catch (error) {
    if (error instanceof PerdureError) return { code: 'AgentNotConfigured', message: error.message };
  }
  return { code: 'AgentNotConfigured', message: `there is no agent "${id}"` };
}
