import { ApplicationFailure } from '@temporalio/activity';
import type { UIMessageChunk } from 'ai';
import type { AgentDefinition } from '../agent/define.ts';
import type { ResolvedModel } from '../agent/models.ts';
import { PartRows } from '../agent/part-rows.ts';
import type { BrokenStep, CompletedStep, ModelCall, Retry, StepRecorder } from '../agent/step-attempt.ts';
import type { StepToolCall } from '../agent/step-chunks.ts';
import { TOOL_NOT_RUN } from '../agent/tool-call.ts';
import type { StepOutcome, ToolCallRef } from '../domain/commands.ts';
import { retryMessage } from '../domain/runs.ts';
import { appendStream, type ClaimedStep, noteRetry, settleStep } from '../store/runs.ts';
import { failRun } from './end-run.ts';
import { Flusher } from './flusher.ts';
import { type StepPrompt, stepPrompt } from './prompt.ts';
import { logOvertaken, type Writer, writeUntilStored } from './write-until-stored.ts';

/** A claimed step. */
interface Claimed extends Writer {
  step: number;
  claimed: ClaimedStep;
  agent: AgentDefinition;
}

/** Records a step in Postgres while the model streams it: batches of parts and deltas, then one settlement. */
export class PostgresStep implements StepRecorder<StepOutcome> {
  private readonly work: Claimed;
  private readonly rows: PartRows;
  private readonly run: { session: string; run: number };
  private call: { prompt: StepPrompt; model: ResolvedModel; flusher: Flusher; at: number } | undefined;
  private receivedFirst = false;

  constructor(work: Claimed) {
    this.work = work;
    this.rows = new PartRows(work.claimed.next_index);
    this.run = { session: work.claim.sessionId, run: work.claim.runSeq };
  }

  async prepare(): Promise<ModelCall> {
    const { context, claim, claimed, agent } = this.work;
    await this.rows.interrupt(claimed.lost);
    const model = context.models.resolve(claimed.model ?? agent.model ?? context.models.defaultRef);
    const prompt = await stepPrompt(context, claimed, { sessionId: claim.sessionId, agent, model });
    const flusher = this.flusher({ system_prompt_digest: prompt.digest, model: model.ref });
    flusher.chunk();
    this.call = { prompt, model, flusher, at: performance.now() };
    return { model, system: prompt.system, messages: prompt.messages };
  }

  add(chunk: UIMessageChunk): void {
    if (this.call === undefined) return;
    const { model, at, flusher } = this.call;
    // `start-step` is not from the model.
    if (!this.receivedFirst && chunk.type !== 'start-step') {
      this.receivedFirst = true;
      this.work.context.metrics.firstChunk(model.ref, (performance.now() - at) / 1000);
    }
    this.rows.add(chunk);
    flusher.chunk();
  }

  async close(): Promise<void> {
    await this.call?.flusher.stop();
  }

  async complete({ result, tokens, calls, isLast, failure }: CompletedStep): Promise<StepOutcome> {
    const { context, step, agent } = this.work;
    if (this.call === undefined) throw new Error('complete() without prepare()');
    const { prompt } = this.call;
    await writeUntilStored(this.work, () => prompt.stored());
    const costUsd = context.hooks.cost?.({ model: result.model, usage: result.usage });
    const settlement = {
      metadata: { system_prompt_digest: prompt.digest, model: result.model },
      parts: this.rows.take().parts,
      nextIndex: this.rows.nextIndex,
      step,
      usage: result.usage,
      model: result.model,
      finishReason: result.finishReason,
      tokens,
      ...(costUsd !== undefined && { costUsd }),
      toolCalls: refsOf(agent, calls),
      end: isLast,
      ...(failure && { failure: { code: failure.code, message: failure.message, toolError: TOOL_NOT_RUN } }),
    };
    const outcome = await writeUntilStored(this.work, (claim) => settleStep(context.db, claim, settlement));
    context.bus.publish({ ...this.run, kind: 'stream' });
    if (outcome.kind === 'lost') return outcome;
    context.metrics.stepSettled(result.model, result.usage);
    if (outcome.state !== 'running') {
      context.bus.publish({ ...this.run, kind: 'status' });
      context.metrics.turnEnded(outcome.state, outcome.code);
    }
    return outcome;
  }

  async breakOff(end: BrokenStep): Promise<StepOutcome> {
    const { context, stop } = this.work;
    if (end.kind === 'lost') {
      logOvertaken(this.work);
      return { kind: 'lost' };
    }
    if (end.kind === 'abort') await this.rows.freeze();
    await this.writeRest();
    switch (end.kind) {
      case 'abort':
        context.metrics.aborted(stop.seconds);
        return { kind: 'abort' };
      case 'shutdown':
        throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
      case 'error':
        return failRun(this.work, end.failure);
      case 'retry':
        return this.noteRetry(end.retry);
    }
  }

  private async noteRetry({ attempt, code, reason, delayMs }: Retry): Promise<StepOutcome> {
    const { context } = this.work;
    const retry = { attempt, reason: retryMessage(reason, delayMs), at: Date.now() + delayMs };
    if (!(await writeUntilStored(this.work, (claim) => noteRetry(context.db, claim, retry)))) return { kind: 'lost' };
    context.bus.publish({ ...this.run, kind: 'status' });
    return { kind: 'retry', code, reason, delay_ms: delayMs };
  }

  /** Writes what was added since the last batch. A lost claim is detected when the step ends. */
  private async writeRest(): Promise<void> {
    if (!this.rows.dirty) return;
    const batch = this.rows.take();
    await writeUntilStored(this.work, (claim) => appendStream(this.work.context.db, claim, batch));
    this.work.context.bus.publish({ ...this.run, kind: 'stream' });
  }

  /** Writes batches under the claim. The first one creates the answer's row, with `metadata`. */
  private flusher(metadata: object): Flusher {
    const { context, stop } = this.work;
    const { db, bus, settings } = context;
    let first: object | undefined = metadata;
    return new Flusher(
      this.rows,
      { ms: settings.saveBufferMs, size: settings.saveBufferSize },
      {
        write: async (batch, since) => {
          const state = await writeUntilStored(this.work, (claim) =>
            appendStream(db, claim, { metadata: first, ...batch }),
          );
          first = undefined;
          context.metrics.written((performance.now() - since) / 1000);
          if (state !== 'lost') bus.publish({ ...this.run, kind: 'stream' });
          return state;
        },
        stopped: (why) => stop.fire(why),
        failed: () => stop.fire('failed'),
      },
    );
  }
}

/** Calls by id and name. Unknown names are replaced, because a model's text must not enter a history. */
function refsOf(agent: AgentDefinition, calls: readonly StepToolCall[]): ToolCallRef[] {
  const names = new Set(agent.tools.map((tool) => tool.name));
  return calls.map((call) => ({
    tool_call_id: call.toolCallId,
    name: names.has(call.toolName) ? call.toolName : 'unknown',
  }));
}
