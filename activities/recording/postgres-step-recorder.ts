import { ApplicationFailure } from '@temporalio/activity';
import type { UIMessageChunk } from 'ai';
import type { ToolDefinition } from '../../agent/definition/define.ts';
import type { ResolvedModel } from '../../agent/models/models.ts';
import { refusedIn } from '../../agent/models/refused-files.ts';
import type { StepToolCall } from '../../agent/parts/call-chunks.ts';
import { ChunksToRows } from '../../agent/parts/chunks-to-rows.ts';
import type { ProviderReport } from '../../agent/provider-failures/provider-report.ts';
import type { BrokenStep, ModelCall, Retry, StepRecorder } from '../../agent/step/attempt-step.ts';
import type { CompletedStep } from '../../agent/step/completed-step.ts';
import type { StepResult } from '../../agent/step/stream-model-call.ts';
import { TOOL_NOT_RUN } from '../../agent/tools/attempt-tool-call.ts';
import { publishEnded } from '../../bus/bus.ts';
import type { StepOutcome, ToolCallRef } from '../../domain/activities.ts';
import { retryMessage, type RunErrorCode, type RunFailure } from '../../domain/runs.ts';
import { noteRetry, type RunSettlement, type WorkDone } from '../../store/runs.ts';
import { settleStep } from '../../store/steps.ts';
import { streamBatch, type StreamWrite } from '../../store/streams.ts';
import type { Claimed } from '../claims/claimed.ts';
import { failRun } from '../claims/fail-run.ts';
import { noteProviderFailure } from '../claims/note-provider-failure.ts';
import { logOvertaken, retryWhileAway, writeUntilStored } from '../claims/write-until-stored.ts';
import { costOf } from '../cost.ts';
import { type StepPrompt, stepPrompt } from '../prompt/step-prompt.ts';
import { Flusher } from '../streaming/flusher.ts';
import { noteContextOf } from '../window/note-context.ts';
import { askForCompaction, failTooLong, judgedStep, switchedFrom } from '../window/too-long.ts';
import { isCompactible, type JudgedStep, judgeWindow, NO_SWITCH } from '../window/window.ts';

/**
 * Records a step in Postgres while the model streams it: batches of parts and deltas, then one settlement. Unless chunks are
 * saved (`saveOn`), there are no batches: the settlement has everything, or if the step breaks off, one last batch.
 */
export class PostgresStepRecorder implements StepRecorder<StepOutcome> {
  private readonly work: Claimed;
  private readonly rows: ChunksToRows;
  private readonly run: { session: string; run: number };
  private call:
    | {
        prompt: StepPrompt;
        model: ResolvedModel;
        tools: readonly ToolDefinition[];
        flusher: Flusher | undefined;
        at: number;
      }
    | undefined;
  private judged: JudgedStep | undefined;
  private readonly attempt: number;
  /** From the call of the model to its first chunk, in milliseconds. */
  private firstMs: number | undefined;
  /** Of the answer's row, which the first batch creates. */
  private metadata: object | undefined;

  /** @param attempt the number of the attempt after failures of the provider, from 1 */
  constructor(work: Claimed, attempt: number) {
    this.work = work;
    this.attempt = attempt;
    this.rows = new ChunksToRows(work.claimed.next_index);
    this.run = { session: work.claim.sessionId, run: work.claim.runSeq };
  }

  async prepare(): Promise<ModelCall | { instead: StepOutcome }> {
    const { context, claim, claimed, agent } = this.work;
    await this.rows.interrupt(claimed.lost);
    const ref = claimed.model ?? agent.model ?? context.models.defaultRef;
    const model = context.models.resolve(ref, claimed.variant);
    const prompt = await stepPrompt(this.work, { sessionId: claim.sessionId, agent, model });
    this.judged = judgedStep(this.work, { model, prompt });
    const note = await noteContextOf(this.work, this.judged);
    const judgement = await judgeWindow(this.judged);
    if (judgement.kind === 'compact') return { instead: await askForCompaction(this.work, judgement) };
    if (judgement.kind === 'too_long') return { instead: await failTooLong(this.work, judgement) };
    this.metadata = this.metadataOf(prompt, model);
    const flusher = context.settings.saveOn === 'chunk' ? this.flusher(prompt) : undefined;
    flusher?.chunk();
    // A list that a server has changed since holds from the next turn.
    const { tools } = context.mcp.withShownTools(agent, prompt.tools);
    this.call = { prompt, model, tools, flusher, at: performance.now() };
    return { model, system: prompt.system, messages: prompt.messages, tools, note };
  }

  add(chunk: UIMessageChunk): void {
    if (this.call === undefined) return;
    const { model, at, flusher } = this.call;
    // `start-step` is not from the model.
    if (this.firstMs === undefined && chunk.type !== 'start-step') {
      this.firstMs = performance.now() - at;
      this.work.context.metrics.firstChunk(model.ref, this.firstMs / 1000);
    }
    this.rows.add(chunk);
    flusher?.chunk();
  }

  async close(): Promise<void> {
    await this.call?.flusher?.stop();
  }

  async complete({ result, tokens, calls, isLast, failure, report }: CompletedStep): Promise<StepOutcome> {
    const { context, step } = this.work;
    if (this.call === undefined) throw new Error('complete() without prepare()');
    const { prompt, model, tools } = this.call;
    await Promise.all([this.promptStored(prompt), this.work.ready]);
    if (failure && report) await this.noteFailure(failure, report);
    const costUsd = costOf(context, this.run, result);
    if (failure) this.refuse(failure);
    const settlement = {
      metadata: this.metadataOf(prompt, model),
      parts: this.rows.take().parts,
      nextIndex: this.rows.nextIndex,
      step,
      usage: result.usage,
      model: result.model,
      finishReason: result.finishReason,
      tokens,
      ...(costUsd !== undefined && { costUsd }),
      toolCalls: refsOf(tools, calls),
      end: isLast,
      work: this.workDone(),
      ...(failure && { failure: { code: failure.code, message: failure.message, toolError: TOOL_NOT_RUN } }),
    };
    const notify = context.bus.takeBatch?.() ?? false;
    const outcome = await writeUntilStored(this.work, (claim) => settleStep(context.db, claim, settlement, { notify }));
    const isOver = outcome.kind === 'settled' && outcome.state !== 'running';
    if (!notify) context.bus.publish({ ...this.run, kind: 'stream', ...(isOver && { over: true }) });
    if (outcome.kind === 'lost') return outcome;
    context.metrics.stepSettled(result.model, result.usage);
    if (outcome.state !== 'running') {
      if (!notify) context.bus.publish({ ...this.run, kind: 'status' });
      publishEnded(context.bus, outcome.children ?? []);
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
    if ('report' in end && end.report)
      await this.noteFailure(end.kind === 'retry' ? end.retry : end.failure, end.report, end.discarded);
    switch (end.kind) {
      case 'abort':
        context.metrics.aborted(stop.seconds);
        return { kind: 'abort' };
      case 'shutdown':
        throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
      case 'error':
        return this.failed(end.failure);
      case 'retry':
        return this.noteRetry(end.retry);
    }
  }

  /** To be awaited before the answer's row is written, which names the prompt by its digest. */
  private promptStored(prompt: StepPrompt): Promise<void> {
    return retryWhileAway(this.work, () => prompt.stored());
  }

  private workDone(): WorkDone {
    const { firstMs, call, attempt } = this;
    return {
      worker: this.work.context.worker,
      attempt,
      ms: Math.round(performance.now() - (call?.at ?? performance.now())),
      ...(firstMs !== undefined && { first_ms: Math.round(firstMs) }),
    };
  }

  /** What the answer's row says of how it was made. Readers get an answer with `save_on: turn` when its turn is over. */
  private metadataOf({ digest }: StepPrompt, { ref, variant }: ResolvedModel): object {
    const { saveOn } = this.work.context.settings;
    return {
      ...{ system_prompt_digest: digest, model: ref },
      ...(variant !== undefined && { variant }),
      ...(saveOn === 'turn' && { save_on: saveOn }),
    };
  }

  /**
   * Ends the run. A conversation that the provider refuses as too long is compacted first, if that may help: its limit is lower than
   * known, or its count is higher.
   */
  private async failed(failure: RunFailure): Promise<StepOutcome> {
    const { judged } = this;
    const answer = () => this.refusal(failure);
    if (failure.code !== 'ContextTooLong' || judged === undefined) return failRun(this.work, failure, await answer());
    if (judged.mayAsk && (await isCompactible(judged))) return askForCompaction(this.work, { reason: 'overflow' });
    // Files are left out from now on, and then the model may be the right one.
    const former = failure.refused === undefined ? switchedFrom(judged) : undefined;
    return failTooLong(this.work, former === undefined ? { failure } : { failure: NO_SWITCH, former }, await answer());
  }

  /** Says in the answer what the provider refused. */
  private refuse({ refused }: RunFailure): void {
    if (refused === undefined || this.call === undefined) return;
    const { prompt, model } = this.call;
    const asked = { own: this.work.claimed.message_id, modalities: model.modalities };
    this.rows.refuse(refusedIn(refused, prompt.messages, asked));
  }

  /** The rest of an answer whose turn fails. */
  private async refusal(failure: RunFailure): Promise<RunSettlement['answer']> {
    this.refuse(failure);
    if (!this.rows.dirty) return undefined;
    if (this.call !== undefined) await this.promptStored(this.call.prompt);
    return { metadata: this.metadata, parts: this.rows.take().parts };
  }

  private async noteFailure(
    { code }: { code: RunErrorCode },
    report: ProviderReport,
    discarded?: StepResult,
  ): Promise<void> {
    if (this.call === undefined) return;
    await noteProviderFailure(this.work, { ref: this.call.model.ref, code, report, ...(discarded && { discarded }) });
  }

  private async noteRetry({ attempt, code, reason, delayMs }: Retry): Promise<StepOutcome> {
    const { context } = this.work;
    const retry = { attempt, reason: retryMessage(reason, delayMs), delayMs };
    if (!(await writeUntilStored(this.work, (claim) => noteRetry(context.db, claim, retry)))) return { kind: 'lost' };
    context.bus.publish({ ...this.run, kind: 'status' });
    return { kind: 'retry', code, reason, delay_ms: delayMs };
  }

  /** Writes what was added since the last batch. A lost claim is detected when the step ends. */
  private async writeRest(): Promise<void> {
    if (!this.rows.dirty) return;
    if (this.call !== undefined) await this.promptStored(this.call.prompt);
    const { streams } = this.work.context;
    const write = this.takeBatch();
    await writeUntilStored(this.work, () => streams.writeAlone(write));
  }

  private takeBatch(): StreamWrite {
    const batch = streamBatch(this.rows.take(), this.metadata);
    this.metadata = undefined;
    return { claim: this.work.claim, batch };
  }

  /** Writes batches under the claim. */
  private flusher(prompt: StepPrompt): Flusher {
    const { context, stop } = this.work;
    const { streams, settings } = context;
    return new Flusher(this.rows, streams, settings.saveBufferSize, {
      ready: () => this.promptStored(prompt),
      take: () => this.takeBatch(),
      write: async (write, landing, since) => {
        const state = await writeUntilStored(this.work, async (_claim, attempt) => {
          return (attempt === 1 ? await landing : undefined) ?? streams.writeAlone(write);
        });
        context.metrics.written((performance.now() - since) / 1000);
        return state;
      },
      stopped: (why) => stop.fire(why),
      failed: () => stop.fire('failed'),
    });
  }
}

/** Calls by id and name. Unknown names are replaced, because a model's text must not enter a history. */
function refsOf(tools: readonly ToolDefinition[], calls: readonly StepToolCall[]): ToolCallRef[] {
  const names = new Set(tools.map((tool) => tool.name));
  return calls.map((call) => ({
    tool_call_id: call.toolCallId,
    name: names.has(call.toolName) ? call.toolName : 'unknown',
  }));
}
