import { Context } from '@temporalio/activity';
import { type AgentDefinition, limitsOf } from '../agent/define.ts';
import type { ResolvedModel } from '../agent/models.ts';
import { failureOfFinish } from '../agent/provider-errors.ts';
import { type StepResult, streamStep } from '../agent/step.ts';
import type { StepArgs, StepOutcome, ToolCallRef } from '../domain/commands.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { appendStream, type Claim, claimStep, settleStep, type StepSettlement } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { Flusher } from './flusher.ts';
import { writeUntilStored } from './write-until-stored.ts';
import { limitMessage, limitReached } from './limits.ts';
import { type StepPrompt, stepPrompt } from './prompt.ts';
import { Recorder } from './recorder.ts';
import { failed, failRun, type RunFailure, TOOL_NOT_RUN, stopped, type Work } from './step-end.ts';
import { ActivityStop } from './stop.ts';

/**
 * One model call of a run, from claim to settlement. Its receipt is the run's `last_step`: asked again for a settled
 * step, it answers what was settled. Never returns content.
 */
export async function makeStep(context: ActivityContext, args: StepArgs): Promise<StepOutcome> {
  const fence = [args.epoch, args.ordinal, Context.current().info.attempt] as const;
  const claim: Claim = { sessionId: args.session_id, runSeq: args.run_seq, fence };
  using stop = new ActivityStop(context, args);
  const claimed = await claimStep(context.db, claim, { step: args.step, startedAt: args.started_at });
  if (claimed.kind !== 'claimed') return claimed;
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'status' });
  const found = agentOf(context, claimed.agent);
  if ('missing' in found) return await failRun(context, claim, found.missing);
  const { agent } = found;
  const limits = limitsOf(agent);
  stop.limitTo(limits.wall_clock_ms - claimed.elapsed_ms);
  const limit = limitReached(limits, { step: args.step, tokens: claimed.tokens, timeLeftMs: stop.timeLeftMs });
  if (limit !== undefined)
    return await failRun(context, claim, { code: 'LimitReached', message: limitMessage(limit, limits) });
  if (agent.timeout !== undefined) stop.after(agent.timeout, 'timeout');
  const recorder = new Recorder(claimed.next_index);
  await recorder.interrupt(claimed.lost);
  // Awaited here: the signal ends with this function.
  return await speak({ context, args, claim, claimed, agent, limits, stop, recorder });
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
    await writeUntilStored(work, () => prompt.kept());
    return await settle(work, prompt, result);
  } catch (error) {
    // Where a batch has not landed this throws: the rest of the step is nothing without it.
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
  const called = performance.now();
  let spoke = false;
  for (;;) {
    const next = await chunks.next();
    if (next.done) return next.value;
    // The mark that a step begins is ours, not the model's.
    if (!spoke && next.value.type !== 'start-step') {
      spoke = true;
      work.context.metrics.firstChunk(model.ref, (performance.now() - called) / 1000);
    }
    recorder.add(next.value);
    flusher.chunk();
  }
}

/** Writes batches under the claim; the first content brings the answer's row. */
function flusherOf(work: Work, prompt: StepPrompt, model: ResolvedModel): Flusher {
  const { context, claim: run, stop, recorder } = work;
  const { db, bus, settings } = context;
  let metadata: object | undefined = { system_prompt_digest: prompt.digest, model: model.ref };
  return new Flusher(
    recorder,
    { ms: settings.saveBufferMs, size: settings.saveBufferSize },
    {
      land: async (batch, since) => {
        const landing = await writeUntilStored(work, (claim) => appendStream(db, claim, { metadata, ...batch }));
        metadata = undefined;
        context.metrics.landed((performance.now() - since) / 1000);
        if (landing !== 'lost') bus.publish({ session: run.sessionId, run: run.runSeq, kind: 'stream' });
        return landing;
      },
      stopped: (landing) => stop.fire(landing),
      failed: () => stop.fire('failed'),
    },
  );
}

async function settle(work: Work, prompt: StepPrompt, result: StepResult): Promise<StepOutcome> {
  const { context, args, claim, recorder } = work;
  const failure = failureOfFinish(result.finishReason);
  const tokens = result.usage.input + result.usage.output + result.usage.reasoning + result.usage.cache_write;
  const costUsd = context.hooks.cost?.({ model: result.model, usage: result.usage });
  const settlement: StepSettlement = {
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
    end: result.toolCalls.length === 0,
    ...(failure?.kind === 'final' && { failure: { ...failure, toolError: TOOL_NOT_RUN } }),
  };
  const outcome = await writeUntilStored(work, (mine) => settleStep(context.db, mine, settlement));
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
  if (outcome.kind === 'lost') return outcome;
  if (outcome.state !== 'running') context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'status' });
  context.metrics.stepSettled(result.model, result.usage);
  if (outcome.kind === 'settled' && outcome.state !== 'running') context.metrics.turnEnded(outcome.state, outcome.code);
  return outcome;
}

/** The calls that a tool is to run; those of bad input have their outcome. A name that no tool has enters no history. */
function callsToRun(agent: AgentDefinition, result: StepResult): ToolCallRef[] {
  const names = new Set(agent.tools.map((tool) => tool.name));
  return result.toolCalls
    .filter((call) => call.invalid !== true)
    .map((call) => ({ tool_call_id: call.toolCallId, name: names.has(call.toolName) ? call.toolName : 'unknown' }));
}

/** The agent of a session, or how a run ends whose agent this worker does not have. */
function agentOf(context: ActivityContext, id: string): { agent: AgentDefinition } | { missing: RunFailure } {
  try {
    return { agent: context.agents.get(id) };
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error;
    return { missing: { code: 'AgentNotConfigured', message: error.message } };
  }
}
