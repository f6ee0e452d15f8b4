// Runs one model call twice: by `streamModelCall`, and by the AI SDK's `streamText`, which is the judge of the former.
import { ReadableStream as NodeStream } from 'node:stream/web';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { convertToModelMessages, streamText, type UIMessage, type UIMessageChunk } from 'ai';
import type { ModelObject } from '../../agent/model-object.ts';
import { classifyProviderError } from '../../agent/provider-failures/classify-provider-error.ts';
import { streamModelCall } from '../../agent/step/stream-model-call.ts';
import { aiSdkTools } from '../../agent/tools/ai-sdk-tools.ts';
import { fromLanguageModelUsage } from '../../domain/usage.ts';
import { plain, reduced } from '../../tools/test-kit/reduce.ts';
import { collect, hello, writeFile } from './step-play.ts';

type CallOptions = Parameters<ModelObject['doStream']>[0];
type ModelStream = Awaited<ReturnType<ModelObject['doStream']>>['stream'];
export type ModelPart = ModelStream extends ReadableStream<infer Part> ? Part : never;

/** What became of a call. Ids of tool calls, and texts for the model, are our own and left out. */
export interface Outcome {
  parts: unknown[];
  /** The failure, if the call threw. */
  failure?: unknown;
  finishReason?: string;
  usage?: unknown;
  calls?: { toolName: string; input: unknown; invalid: boolean }[];
}

/** A model that sends these parts, each in a turn of its own, and then ends its stream, or fails it with `error`. */
export class RecordedModel {
  readonly calls: CallOptions[] = [];
  readonly object: ModelObject;

  constructor(parts: readonly ModelPart[], error?: Error) {
    const { calls } = this;
    this.object = {
      specificationVersion: 'v4',
      provider: 'recorded.chat',
      modelId: 'recorded',
      supportedUrls: {},
      doStream: async (options) => {
        calls.push(options);
        return { stream: NodeStream.from(played(parts, error)) as ModelStream };
      },
      doGenerate: () => Promise.reject(new Error('not used')),
    };
  }
}

async function* played(parts: readonly ModelPart[], error: Error | undefined) {
  for (const part of parts) {
    await nextTurn();
    yield part;
  }
  // What was sent before an error may be lost in a stream that has not passed it on yet.
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  if (error !== undefined) throw error;
}

const SYSTEM = 'Be kind.';
const TOOLS = [writeFile];

export async function ours(model: ModelObject, messages: UIMessage[] = hello): Promise<Outcome> {
  let calls = 0;
  const { chunks, result, error } = await collect(
    streamModelCall({
      model: {
        ref: 'recorded/recorded',
        model,
        contextLimit: 1,
        maxInput: 1,
        maxOutput: 1,
        modalities: null,
        idleMs: 120_000,
      },
      system: SYSTEM,
      messages,
      tools: TOOLS,
      signal: new AbortController().signal,
      temperature: 0.5,
      maxOutputTokens: 99,
      newToolCallId: () => `call_${++calls}`,
    }),
  );
  const parts = normal(await reduced(chunks));
  if (result === undefined) return { parts, failure: classifyProviderError(error) };
  const { finishReason, usage, toolCalls } = result;
  return {
    parts,
    finishReason,
    usage,
    calls: toolCalls.map(({ toolName, input, invalid = false }) => ({ toolName, input, invalid })),
  };
}

export async function theirs(model: ModelObject, messages: UIMessage[] = hello): Promise<Outcome> {
  let failed: { error: unknown } | undefined;
  const converted = await convertToModelMessages(messages);
  const marked = new Set([converted.length - 1, converted.findLastIndex(({ role }) => role === 'assistant') - 1]);
  for (const [at, message] of converted.entries()) if (marked.has(at)) Object.assign(message, CACHED);
  const result = streamText({
    model,
    instructions: { role: 'system', content: SYSTEM, ...CACHED },
    messages: converted,
    tools: aiSdkTools(TOOLS),
    temperature: 0.5,
    maxOutputTokens: 99,
    maxRetries: 0,
    onError: ({ error }) => void (failed ??= { error }),
  });
  const chunks: UIMessageChunk[] = [];
  try {
    for await (const chunk of result.toUIMessageStream({ sendSources: true })) {
      if (chunk.type === 'error') break;
      chunks.push(chunk);
    }
  } catch (error) {
    failed ??= { error };
  }
  const parts = normal(await reduced(chunks));
  if (failed !== undefined) return { parts, failure: classifyProviderError(failed.error) };
  const toolCalls = await result.toolCalls;
  return {
    parts,
    finishReason: await result.finishReason,
    usage: fromLanguageModelUsage(await result.usage),
    calls: toolCalls
      .filter(({ providerExecuted }) => providerExecuted !== true)
      .map(({ toolName, input, invalid = false }) => ({ toolName, input, invalid })),
  };
}

const CACHED = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } };

type StoredPart = Record<string, unknown> & { type: string; toolCallId?: string; toolName?: string; state?: string };

/** The parts with what both have in common. */
function normal(message: UIMessage | undefined): unknown[] {
  const parts = plain(message?.parts ?? []) as StoredPart[];
  return parts.map((part) => (part.toolCallId === undefined ? part : normalTool(part)));
}

function normalTool({ toolCallId, type, toolName, errorText, ...part }: StoredPart): unknown {
  return {
    ...part,
    toolName: toolName ?? type.replace(/^tool-/, ''),
    ...(part['providerExecuted'] === true && { type, toolCallId, errorText }),
    callProviderMetadata: withoutOurs(part['callProviderMetadata']),
    // An invalid call of ours has its result when the call is complete.
    resultProviderMetadata: withoutOurs(part['resultProviderMetadata']),
  };
}

function withoutOurs(metadata: unknown): Record<string, unknown> | undefined {
  const { perdure: _ours, ...others } = (metadata ?? {}) as Record<string, unknown>;
  return Object.keys(others).length > 0 ? others : undefined;
}
