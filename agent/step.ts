import {
  convertToModelMessages,
  experimental_streamTextLowMemory as streamText,
  type ModelMessage,
  type UIMessage,
  type UIMessageChunk,
} from 'ai';
import { fromLanguageModelUsage, type Usage, ZERO_USAGE } from '../domain/usage.ts';
import type { ToolDefinition } from './define.ts';
import type { ResolvedModel } from './models.ts';
import { withoutRefusedFiles } from './refused-files.ts';
import { StepChunks, type StepToolCall } from './step-chunks.ts';
import { sdkTools } from './step-tools.ts';

// The SDK would print warnings such as "temperature is not supported" at every step.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface StepInput {
  model: ResolvedModel;
  /** The first four sections of the prompt. */
  system: string;
  /** Prepared by `modelView`. */
  messages: UIMessage[];
  tools: readonly ToolDefinition[];
  /** Fires when the run is aborted; the provider's connection is closed at once. */
  signal: AbortSignal;
  temperature?: number | undefined;
  maxOutputTokens?: number | undefined;
  /** Creates the id of a tool call. Providers repeat their ids, so these are kept as metadata only. */
  newToolCallId: () => string;
}

export interface StepResult {
  /** The AI SDK's: stop, length, content-filter, tool-calls, error, other. */
  finishReason: string;
  usage: Usage;
  /** `provider/model`. */
  model: string;
  /** In the model's order. An `invalid` call has an error as its outcome already. */
  toolCalls: StepToolCall[];
}

/**
 * One model call. Yields the chunks of one step as they arrive from the provider: `start-step` with the first content, text,
 * reasoning, tool inputs, files and sources, `finish-step`; no `start` and no `finish`. Leaving the generator early ends
 * the call.
 *
 * @throws the provider's error, for `classifyProviderError`; the signal's reason if it fired
 */
export async function* streamStep(input: StepInput): AsyncGenerator<UIMessageChunk, StepResult, void> {
  const left = new AbortController();
  let ended = false;
  const chunks = new StepChunks(input.tools, input.newToolCallId);
  let finished: FinishedStep | undefined;
  try {
    input.signal.throwIfAborted();
    const signal = AbortSignal.any([input.signal, left.signal]);
    const options = await callOptions(input, signal);
    const result = streamText({ ...options, onStepEnd: (step) => void (finished = step), onError: () => {} });
    for await (const part of result.stream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'abort') break;
      yield* chunks.of(part);
    }
    ended = true;
    input.signal.throwIfAborted();
    yield* chunks.end();
    return resultOf(input.model.ref, finished, chunks.toolCalls);
  } catch (error) {
    input.signal.throwIfAborted();
    throw error;
  } finally {
    if (!ended) left.abort();
  }
}

interface FinishedStep {
  finishReason: string;
  usage: Parameters<typeof fromLanguageModelUsage>[0];
}

function resultOf(model: string, finished: FinishedStep | undefined, toolCalls: StepToolCall[]): StepResult {
  const usage = finished ? fromLanguageModelUsage(finished.usage) : ZERO_USAGE;
  return { finishReason: finished?.finishReason ?? 'other', usage, model, toolCalls };
}

async function callOptions(input: StepInput, abortSignal: AbortSignal) {
  const { model, system, temperature, maxOutputTokens } = input;
  return {
    model: withoutRefusedFiles(model.model),
    ...(system !== '' && { instructions: { role: 'system' as const, content: system, ...CACHED } }),
    messages: withCacheMark(await convertToModelMessages(input.messages)),
    tools: sdkTools(input.tools),
    abortSignal,
    // The caller retries, and shows it in the status.
    maxRetries: 0,
    ...(temperature !== undefined && { temperature }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(model.providerOptions && { providerOptions: model.providerOptions }),
  };
}

/** Anthropic caches up to a mark: one after the system text, one after the last message. */
const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } } as const;

function withCacheMark(messages: ModelMessage[]): ModelMessage[] {
  return messages.map((message, at) => (at === messages.length - 1 ? { ...message, ...CACHED } : message));
}
