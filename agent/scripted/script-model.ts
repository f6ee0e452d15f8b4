import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from '../../domain/text.ts';
import type { ModelObject, ModelPrompt } from '../model-object.ts';

export type ModelCallOptions = Parameters<ModelObject['doStream']>[0];
type StreamResult = Awaited<ReturnType<ModelObject['doStream']>>;
type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never;

/** What a model without a network answers in one step. */
export interface Reply {
  text: string;
  calls: readonly { tool: string; input: Json }[];
}

/** A model that answers as `replyTo` says. */
export interface ScriptModelOptions {
  provider: string;
  modelId: string;
  replyTo: (options: ModelCallOptions) => Reply | Promise<Reply>;
  /** Pause between two pieces of the answer, in milliseconds. */
  delayMs: number;
}

/** Characters per chunk of a tool's input. */
const INPUT_PIECE = 48;

const scripted = new WeakSet<ModelObject>();

/** Whether a model is one of `scriptModel`, which reads the user's messages one by one. */
export function isScripted(model: ModelObject): boolean {
  return scripted.has(model);
}

/** A model object of the AI SDK without a network. Streams word by word, and stops at once when aborted. */
export function scriptModel({ provider, modelId, replyTo, delayMs }: ScriptModelOptions): ModelObject {
  const model: ModelObject = {
    specificationVersion: 'v4',
    provider,
    modelId,
    supportedUrls: {},
    doStream: async (options) => {
      const reply = await replyTo(options);
      return { stream: streamOf(partsOf(reply, options, delayMs)) };
    },
    doGenerate: async (options) => {
      const reply = await replyTo(options);
      const calls = callsOf(reply);
      const text = reply.text === '' ? [] : [{ type: 'text' as const, text: reply.text }];
      return { content: [...text, ...calls], ...endOf(options.prompt, reply), warnings: [] };
    },
  };
  scripted.add(model);
  return model;
}

function streamOf(parts: AsyncGenerator<StreamPart, void, void>): ReadableStream<StreamPart> {
  return new ReadableStream<StreamPart>({
    async pull(controller) {
      const next = await parts.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await parts.return(undefined);
    },
  });
}

async function* partsOf(
  reply: Reply,
  { abortSignal, prompt }: ModelCallOptions,
  delayMs: number,
): AsyncGenerator<StreamPart, void, void> {
  const pause = async () => {
    abortSignal?.throwIfAborted();
    if (delayMs > 0) await sleep(delayMs, undefined, abortSignal ? { signal: abortSignal } : {});
  };
  yield { type: 'stream-start', warnings: [] };
  if (reply.text !== '') {
    yield { type: 'text-start', id: 'text' };
    for (const word of reply.text.match(/\s*\S+|\s+$/g) ?? []) {
      await pause();
      yield { type: 'text-delta', id: 'text', delta: word };
    }
    yield { type: 'text-end', id: 'text' };
  }
  for (const call of callsOf(reply)) {
    const { toolCallId: id, toolName, input } = call;
    yield { type: 'tool-input-start', id, toolName };
    for (let at = 0; at < input.length; at += INPUT_PIECE) {
      await pause();
      yield { type: 'tool-input-delta', id, delta: input.slice(at, at + INPUT_PIECE) };
    }
    yield { type: 'tool-input-end', id };
    yield call;
  }
  yield { type: 'finish', ...endOf(prompt, reply) };
}

function callsOf({ calls }: Reply) {
  return calls.map(({ tool, input }, index) => ({
    type: 'tool-call' as const,
    toolCallId: `call_${index + 1}`,
    toolName: tool,
    input: JSON.stringify(input),
  }));
}

/** Finish reason and usage. A token is four characters here. */
function endOf(prompt: ModelPrompt, reply: Reply) {
  const calls = callsOf(reply);
  const input = Math.ceil(JSON.stringify(prompt).length / 4);
  const output = Math.ceil((reply.text.length + calls.reduce((sum, call) => sum + call.input.length, 0)) / 4);
  const finishReason =
    calls.length > 0
      ? { unified: 'tool-calls' as const, raw: 'tool_calls' }
      : { unified: 'stop' as const, raw: 'stop' };
  return {
    finishReason,
    usage: {
      inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: output, text: output, reasoning: 0 },
    },
  };
}
