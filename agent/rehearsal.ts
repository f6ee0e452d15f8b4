import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelObject, ModelPrompt } from './model-object.ts';
import { type Reply, nextReply } from './rehearsal-script.ts';

export const REHEARSAL_PROVIDER = 'rehearsal';

/** The model that needs no provider key, `provider/model`. */
export const REHEARSAL_MODEL = 'rehearsal/site-builder';

type CallOptions = Parameters<ModelObject['doStream']>[0];
type StreamResult = Awaited<ReturnType<ModelObject['doStream']>>;
type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never;

/** Pause between two words. */
const DELAY_MS = 12;
/** Characters per chunk of a tool's input. */
const INPUT_PIECE = 48;

/**
 * A model without a network. It is stateless: its response depends on the prompt alone. Streams word by word with a
 * pause of `delayMs` milliseconds, and stops at once when aborted.
 */
export function rehearsalModel({ delayMs = DELAY_MS }: { delayMs?: number } = {}): ModelObject {
  return {
    specificationVersion: 'v4',
    provider: REHEARSAL_PROVIDER,
    modelId: REHEARSAL_MODEL.slice(REHEARSAL_PROVIDER.length + 1),
    supportedUrls: {},
    doStream: async (options) => ({ stream: streamOf(partsOf(options, delayMs)) }),
    doGenerate: async (options) => {
      const reply = replyOf(options);
      const call = reply.call && { type: 'tool-call' as const, toolCallId: 'call_1', ...callOf(reply.call) };
      return {
        content: [{ type: 'text', text: reply.text }, ...(call ? [call] : [])],
        ...endOf(options.prompt, reply),
        warnings: [],
      };
    },
  };
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

async function* partsOf(options: CallOptions, delayMs: number): AsyncGenerator<StreamPart, void, void> {
  const reply = replyOf(options);
  const pause = async () => {
    options.abortSignal?.throwIfAborted();
    if (delayMs > 0) await sleep(delayMs, undefined, options.abortSignal ? { signal: options.abortSignal } : {});
  };
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'text-start', id: 'text' };
  for (const word of reply.text.match(/\s*\S+/g) ?? []) {
    await pause();
    yield { type: 'text-delta', id: 'text', delta: word };
  }
  yield { type: 'text-end', id: 'text' };
  if (reply.call) {
    const { toolName, input } = callOf(reply.call);
    yield { type: 'tool-input-start', id: 'call_1', toolName };
    for (let at = 0; at < input.length; at += INPUT_PIECE) {
      await pause();
      yield { type: 'tool-input-delta', id: 'call_1', delta: input.slice(at, at + INPUT_PIECE) };
    }
    yield { type: 'tool-input-end', id: 'call_1' };
    yield { type: 'tool-call', toolCallId: 'call_1', toolName, input };
  }
  yield { type: 'finish', ...endOf(options.prompt, reply) };
}

function replyOf(options: CallOptions): Reply {
  return nextReply(options.prompt, options.tools?.map((tool) => tool.name) ?? []);
}

function callOf(call: NonNullable<Reply['call']>): { toolName: string; input: string } {
  return { toolName: call.toolName, input: JSON.stringify(call.input) };
}

/** Finish reason and usage. A token is four characters here. */
function endOf(prompt: ModelPrompt, reply: Reply) {
  const input = Math.ceil(JSON.stringify(prompt).length / 4);
  const output = Math.ceil((reply.text.length + (reply.call ? callOf(reply.call).input.length : 0)) / 4);
  const finishReason = reply.call
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
