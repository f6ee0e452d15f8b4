import type { UIMessageChunk } from 'ai';
import { cleanJson, JsonTextCleaner } from '../domain/text.ts';
import { CallChunks, foreignEnd, type StepToolCall, type StreamedCall } from './call-chunks.ts';
import type { ToolDefinition } from './define.ts';
import { type PartOf, sdkChunks } from './sdk-chunks.ts';

/**
 * Converts the parts of a step's tool calls to UIMessage chunks:
 *
 * 1. Each call gets an id of ours when its input starts, or when it arrives complete. The provider's ids may repeat within a
 *    step: deltas belong to the latest call with the id, and inputs complete in the order in which they started.
 * 2. A call that starts and does not become complete is an invalid one when the step ends.
 */
export class StepCalls {
  /** In the order in which they became complete. */
  readonly all: StepToolCall[] = [];
  private readonly chunks: CallChunks;
  private readonly newToolCallId: () => string;
  /** Those that are not complete, in the order in which they started. */
  private readonly open: StreamedCall[] = [];
  /** Open calls of tools that the provider runs, by its ids. */
  private readonly foreign = new Map<string, PartOf<'tool-input-start'>>();

  constructor(tools: readonly ToolDefinition[], newToolCallId: () => string) {
    this.chunks = new CallChunks(tools);
    this.newToolCallId = newToolCallId;
  }

  start(part: PartOf<'tool-input-start'>): UIMessageChunk[] {
    if (part.providerExecuted) {
      this.foreign.set(part.id, part);
      return sdkChunks(part);
    }
    const call = this.begin(part.id, part.toolName);
    this.open.push(call);
    return [this.chunks.start(call, part)];
  }

  delta(part: PartOf<'tool-input-delta'>): UIMessageChunk[] {
    const call = this.open.findLast(({ providerId }) => providerId === part.id);
    return call === undefined ? sdkChunks(part) : this.chunks.delta(call, call.cleaner.push(part.delta));
  }

  complete(part: PartOf<'tool-call'>): UIMessageChunk[] {
    if (part.providerExecuted) {
      this.foreign.delete(part.toolCallId);
      return sdkChunks(part);
    }
    const at = this.open.findIndex(({ providerId }) => providerId === part.toolCallId);
    const call = this.open.splice(at, at < 0 ? 0 : 1)[0] ?? this.begin(part.toolCallId, part.toolName);
    const rest = this.chunks.delta(call, call.cleaner.end());
    return [...rest, this.ended(call, cleanJson(part.input), part)];
  }

  /** The ends of the calls that are not complete. */
  end(): UIMessageChunk[] {
    const chunks: UIMessageChunk[] = [];
    for (const call of this.open) {
      chunks.push(...this.chunks.delta(call, call.cleaner.end()));
      chunks.push(this.ended(call, call.text));
    }
    for (const part of this.foreign.values()) chunks.push(foreignEnd(part));
    return chunks;
  }

  private begin(providerId: string, name: string): StreamedCall {
    return { providerId, toolCallId: this.newToolCallId(), name, cleaner: new JsonTextCleaner(), text: '' };
  }

  /** @param part the call's last part, if it came */
  private ended(call: StreamedCall, input: unknown, part?: PartOf<'tool-call'>): UIMessageChunk {
    const chunk = this.chunks.end(call, { input, ...(part && { part }) });
    const { toolName } = this.chunks.named(call.name);
    const { toolCallId } = call;
    this.all.push({ toolCallId, toolName, input, ...(chunk.type === 'tool-input-error' && { invalid: true }) });
    return chunk;
  }
}
