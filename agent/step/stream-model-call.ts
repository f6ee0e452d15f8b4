import {
  convertToModelMessages,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type LanguageModelStreamPart,
  type ModelMessage,
  Output,
  type UIMessage,
  type UIMessageChunk,
} from 'ai';
import { fromLanguageModelUsage, type Usage } from '../../domain/usage.ts';
import type { ToolDefinition } from '../definition/define.ts';
import { withAlternatingRoles } from '../models/alternating-roles.ts';
import type { ResolvedModel } from '../models/models.ts';
import { withoutRefusedFiles } from '../models/refused-files.ts';
import { VariantWatch } from '../models/variant-watch.ts';
import type { StepToolCall } from '../parts/call-chunks.ts';
import { SdkPartsToChunks } from '../parts/sdk-parts-to-chunks.ts';
import { EndedEarlyError } from '../provider-failures/ended-early-error.ts';
import { AnswerSize } from '../provider-stream/answer-size.ts';
import { aiSdkTools } from '../tools/ai-sdk-tools.ts';
import { modelParts } from './model-parts.ts';
import { withNote } from './with-note.ts';

// The SDK would print warnings, such as of a model of an older specification.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface StepInput {
  model: ResolvedModel;
  /** The first four sections of the prompt. */
  system: string;
  /** Prepared by `modelView`. */
  messages: UIMessage[];
  tools: readonly ToolDefinition[];
  /** Stands after the messages. */
  note?: string | undefined;
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
  /** The provider's word for it. */
  rawFinishReason?: string;
  usage: Usage;
  /** `provider/model`. */
  model: string;
  /** In the model's order. An `invalid` call has an error as its outcome already. */
  toolCalls: StepToolCall[];
  /** The output limit has cut a tool call, which is one of the invalid ones. */
  isCut: boolean;
  /** There is no text but spaces, no tool call and no file. */
  isEmpty: boolean;
}

/**
 * One model call. Yields the chunks of one step as they arrive from the provider: `start-step` with the first content, text,
 * reasoning, tool inputs, files and sources, `finish-step`; no `start` and no `finish`. Leaving the generator early ends
 * the call.
 *
 * @throws the provider's error, for `classifyProviderError`; `ModelSilentError`; `EndedEarlyError`; `AnswerTooLongError`; `PerdureError`:
 * the provider does not take what the variant sets; the signal's reason if it fired
 */
export async function* streamModelCall(input: StepInput): AsyncGenerator<UIMessageChunk, StepResult, void> {
  const chunks = new SdkPartsToChunks(input.tools, input.newToolCallId);
  const size = new AnswerSize();
  const watch = new VariantWatch(input.model);
  let end: CallEnd | undefined;
  try {
    input.signal.throwIfAborted();
    const parts = modelParts((signal) => callModel(input, watch.options, signal), input.signal, input.model.idleMs);
    for await (const part of parts) {
      if (part.type === 'model-call-start') watch.requireTaken(part.warnings);
      if (part.type === 'model-call-end') end = part;
      size.add(part);
      yield* chunks.of(part);
    }
    input.signal.throwIfAborted();
    if (end === undefined || NO_END.has(end.finishReason)) throw new EndedEarlyError();
    yield* chunks.end(end.finishReason);
  } catch (error) {
    input.signal.throwIfAborted();
    throw watch.refusalOf(error);
  }
  return resultOf(input.model.ref, end, chunks);
}

type CallEnd = Extract<LanguageModelStreamPart, { type: 'model-call-end' }>;

/** What the SDK makes of a stream that ends without a finish reason. */
const NO_END: ReadonlySet<string> = new Set(['interrupted', 'unknown']);

function resultOf(model: string, end: CallEnd, { toolCalls, isCut, isEmpty }: SdkPartsToChunks): StepResult {
  const { finishReason, rawFinishReason } = end;
  return {
    finishReason,
    ...(rawFinishReason !== undefined && { rawFinishReason }),
    usage: fromLanguageModelUsage(end.usage),
    model,
    toolCalls,
    isCut,
    isEmpty,
  };
}

/** Prompt, tools and tool calls are converted and checked by the SDK, but without `streamText`, which costs twice as much. */
async function callModel(input: StepInput, providerOptions: VariantWatch['options'], signal: AbortSignal) {
  const { model, system, temperature, maxOutputTokens } = input;
  return streamLanguageModelCall({
    model: withoutRefusedFiles(withAlternatingRoles(model.model), model.modalities),
    ...(system !== '' && { instructions: { role: 'system' as const, content: system, ...CACHED } }),
    messages: withCacheMarks(withNote(await convertToModelMessages(input.messages), input.note)),
    tools: aiSdkTools(input.tools),
    abortSignal: signal,
    includeRawChunks: false,
    ...(temperature !== undefined && { temperature }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(model.reasoning !== undefined && { reasoning: model.reasoning }),
    ...(model.json && { output: Output.json() }),
    ...(providerOptions && { providerOptions }),
    // The SDK need not keep a copy of the answer.
    _internal: { collectContent: false },
  });
}

/**
 * Anthropic caches up to a mark: one after the system text, one after the last message, and one where the request before had its
 * last, because it looks for what it has cached only 20 blocks before a mark, and a step may add more.
 */
const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } } as const;

function withCacheMarks(messages: ModelMessage[]): ModelMessage[] {
  const before = messages.findLastIndex(({ role }) => role === 'assistant') - 1;
  return messages.map((message, at) =>
    at === messages.length - 1 || at === before ? { ...message, ...CACHED } : message,
  );
}
