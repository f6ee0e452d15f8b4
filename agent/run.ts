import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';
import { newId } from '../domain/ids.ts';
import { modelView } from '../domain/model-view.ts';
import { addUsage, totalTokens, type Usage, ZERO_USAGE } from '../domain/usage.ts';
import { type Limits, limitsOf } from './define.ts';
import type { MemorySession } from './memory.ts';
import type { ResolvedModel } from './models.ts';
import { type AssembledPrompt, assemblePrompt } from './prompt.ts';
import { classifyProviderError, failureOfFinish } from './provider-errors.ts';
import { runTool } from './run-tool.ts';
import { type StepResult, streamStep } from './step.ts';

export interface RunOptions {
  /** Aborts the run: the model call and the tool in flight stop at once. */
  signal?: AbortSignal;
  /** Outermost folder whose instruction files are read; default the session's workspace. */
  boundary?: string;
  /** The day as `yyyy-mm-dd`; default today's. */
  date?: string;
}

/** What a message of the assistant says about itself when the turn is over. */
export interface AnswerMetadata {
  usage: Usage;
  steps: { usage: Usage; model: string; finish_reason: string }[];
  system_prompt_digest: string;
}

/** The turn met one of the agent's limits; the message names it. */
class LimitReachedError extends Error {
  readonly code = 'LimitReached';

  constructor(limit: keyof Limits, value: number) {
    super(`LimitReached: the turn met its limit of ${limit}, ${value}`);
    this.name = 'LimitReached';
  }
}

/** The model ended the turn with a failure that has its own sentence, such as a content filter. */
class FinishError extends Error {}

/**
 * A whole turn in memory: the user's message, then steps until the model calls no more tools. Made of the same pieces
 * that the durable runtime schedules one by one. Yields the chunks of one UIMessage, `start` to `finish`; a failure is an
 * `error` chunk and an abort an `abort` chunk at the end. Both messages are added to `session.messages`.
 */
export async function* run(
  session: MemorySession,
  input: string | UIMessage,
  model: ResolvedModel,
  options: RunOptions = {},
): AsyncGenerator<UIMessageChunk, void, void> {
  const turn = new Turn(session, model, options);
  session.messages.push(typeof input === 'string' ? userMessage(input) : input);
  try {
    yield { type: 'start', messageId: turn.answer.id };
    yield* turn.steps();
    yield { type: 'finish', messageMetadata: turn.answer.metadata };
  } catch (error) {
    if (options.signal?.aborted) yield { type: 'abort' };
    else yield { type: 'error', errorText: turn.sentenceOf(error) };
  } finally {
    if (turn.answer.parts.length > 0) session.messages.push(turn.answer);
  }
}

function userMessage(text: string): UIMessage {
  return { id: newId('msg'), role: 'user', parts: [{ type: 'text', text }] };
}

/** One turn in the making. Owns the answer, which grows by whole steps, and the count of what was spent. */
class Turn {
  answer: UIMessage & { metadata: AnswerMetadata };
  private readonly session: MemorySession;
  private readonly model: ResolvedModel;
  private readonly options: RunOptions;
  private readonly limits: Limits;
  private readonly clock: AbortSignal;
  private readonly signal: AbortSignal;

  constructor(session: MemorySession, model: ResolvedModel, options: RunOptions) {
    this.session = session;
    this.model = model;
    this.options = options;
    this.limits = limitsOf(session.agent);
    this.clock = AbortSignal.timeout(this.limits.wall_clock_ms);
    this.signal = options.signal ? AbortSignal.any([options.signal, this.clock]) : this.clock;
    const metadata = { usage: ZERO_USAGE, steps: [], system_prompt_digest: '' };
    this.answer = { id: newId('msg'), role: 'assistant', metadata, parts: [] };
  }

  async *steps(): AsyncGenerator<UIMessageChunk, void, void> {
    const prompt = await this.prompt();
    this.answer.metadata.system_prompt_digest = prompt.digest;
    for (let step = 1; ; step += 1) {
      if (step > this.limits.steps) throw new LimitReachedError('steps', this.limits.steps);
      const result = yield* this.step(prompt.system);
      const failure = failureOfFinish(result.finishReason);
      if (failure?.kind === 'final') throw new FinishError(failure.message);
      if (result.toolCalls.length === 0) return;
      const { usage } = this.answer.metadata;
      if (totalTokens(usage) - usage.cache_read >= this.limits.tokens) {
        throw new LimitReachedError('tokens', this.limits.tokens);
      }
    }
  }

  /** What a failed turn says; never the provider's words. */
  sentenceOf(error: unknown): string {
    if (this.clock.aborted) return new LimitReachedError('wall_clock_ms', this.limits.wall_clock_ms).message;
    if (error instanceof LimitReachedError || error instanceof FinishError) return error.message;
    const failure = classifyProviderError(error);
    return failure.kind === 'final' ? failure.message : `${failure.code}: ${failure.reason}`;
  }

  /** A model call and its tools. What had been seen of it when it broke off stays in the answer. */
  private async *step(system: string): AsyncGenerator<UIMessageChunk, StepResult, void> {
    const { session, model } = this;
    const signal = this.callSignal();
    const { temperature, max_output_tokens: maxOutputTokens, tools } = session.agent;
    const messages = modelView([...session.messages, this.answer]);
    const newToolCallId = () => newId('call');
    const input = { model, system, messages, tools, signal, temperature, maxOutputTokens, newToolCallId };
    const seen: UIMessageChunk[] = [];
    try {
      const result = yield* keep(seen, streamStep(input));
      for (const call of result.toolCalls) {
        if (!call.invalid) yield* keep(seen, runTool(session, call, this.signal, this.limits.tool_output_bytes));
      }
      this.count(result);
      return result;
    } finally {
      await this.apply(seen);
    }
  }

  /** The turn's signal, and the agent's time-out of one model call. */
  private callSignal(): AbortSignal {
    const { timeout } = this.session.agent;
    return timeout === undefined ? this.signal : AbortSignal.any([this.signal, AbortSignal.timeout(timeout)]);
  }

  private count({ usage, model, finishReason }: StepResult): void {
    const { metadata } = this.answer;
    metadata.usage = addUsage(metadata.usage, usage);
    metadata.steps.push({ usage, model, finish_reason: finishReason });
  }

  /** Adds chunks to the answer with the SDK's own reducer. */
  private async apply(chunks: readonly UIMessageChunk[]): Promise<void> {
    const stream = new ReadableStream<UIMessageChunk>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    for await (const message of readUIMessageStream({ message: this.answer, stream })) {
      this.answer = { ...this.answer, parts: message.parts };
    }
  }

  private prompt(): Promise<AssembledPrompt> {
    const { agent, workspaceRoot } = this.session;
    const { boundary = workspaceRoot, date = new Date().toISOString().slice(0, 10) } = this.options;
    return assemblePrompt({ agent, workspaceRoot, boundary, date, model: this.model.ref });
  }
}

/** Passes a generator's chunks on and keeps them. */
async function* keep<Result>(
  seen: UIMessageChunk[],
  chunks: AsyncGenerator<UIMessageChunk, Result, void>,
): AsyncGenerator<UIMessageChunk, Result, void> {
  for (;;) {
    const { done, value } = await chunks.next();
    if (done) return value;
    seen.push(value);
    yield value;
  }
}
