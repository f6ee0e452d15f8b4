import type { UIMessageChunk } from 'ai';
import { cleanJson, JsonTextCleaner } from '../../domain/text.ts';
import type { ToolDefinition } from '../definition/define.ts';
import { sentId } from '../provider-stream/repeated-calls.ts';
import { CallChunks, foreignEnd, type StepToolCall, type StreamedCall } from './call-chunks.ts';
import { type AlikeCalls, KnownCalls } from './known-calls.ts';
import { type PartOf, sdkChunks } from './sdk-chunks.ts';

/** A call from its first part on. */
interface Call extends StreamedCall {
  /** The id in the SDK's parts. */
  partId: string;
  /** Those with its id and name. */
  alike: AlikeCalls;
  /** There is an earlier one of these, and it is not known whether this one repeats it. */
  mayRepeat: boolean;
  /** Its chunks, as long as they wait; undefined: they do not. */
  held: UIMessageChunk[] | undefined;
}

/** A call with its last part. */
interface EndedCall {
  call: Call;
  part: PartOf<'tool-call'>;
  isStreamed: boolean;
}

/** A call that is complete if the output limit has not cut it. */
interface UnsureCall {
  call: Call;
  listed: StepToolCall;
  part: PartOf<'tool-call'>;
}

/**
 * Converts the parts of a step's tool calls to UIMessage chunks:
 *
 * 1. Each call gets an id of ours when its input starts, or when it arrives complete. The provider's ids may repeat within a
 *    step: deltas belong to the latest call with the id, and inputs complete in the order in which they started.
 * 2. A call that has id, name and input of an earlier one is that call sent again, and leaves nothing. It waits until it and all
 *    with its id and name are complete, and the chunks of the calls behind it wait, too, for the order.
 * 3. A call that starts and does not become complete is an invalid one when the step ends. So is one that the output limit has
 *    cut: SDKs pass on what has come of it as if it were complete.
 */
export class StepCalls {
  /** In the order in which they became complete, but of those with one id and name the first goes first. */
  readonly all: StepToolCall[] = [];
  /** Whether the output limit has cut one. */
  isCut = false;
  private readonly chunks: CallChunks;
  private readonly newToolCallId: () => string;
  /** Those that are not complete, in the order in which they started, also by their ids in the SDK's parts. */
  private readonly open = new Set<Call>();
  private readonly openById = new Map<string, Call[]>();
  private readonly unsure: UnsureCall[] = [];
  /** Those that may repeat one that is still open. */
  private readonly early = new Map<AlikeCalls, EndedCall[]>();
  private newest: Call | undefined;
  private readonly known = new KnownCalls();
  /** Whose chunks wait, in the order in which they started. */
  private readonly waiting: Call[] = [];
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
    this.open.add(call);
    const sameId = this.openById.get(part.id);
    if (sameId) sameId.push(call);
    else this.openById.set(part.id, [call]);
    return this.sent(call, [this.chunks.start(call, part)]);
  }

  delta(part: PartOf<'tool-input-delta'>): UIMessageChunk[] {
    const call = this.openById.get(part.id)?.at(-1);
    return call === undefined
      ? sdkChunks(part)
      : this.sent(call, this.chunks.delta(call, call.cleaner.push(part.delta)));
  }

  complete(part: PartOf<'tool-call'>): UIMessageChunk[] {
    if (part.providerExecuted) {
      this.foreign.delete(part.toolCallId);
      return sdkChunks(part);
    }
    const started = this.openById.get(part.toolCallId)?.shift();
    const call = started ?? this.begin(part.toolCallId, part.toolName);
    this.open.delete(call);
    const ended = { call, part, isStreamed: started !== undefined };
    const areAllComplete = call.alike.ends();
    const early = this.early.get(call.alike) ?? [];
    if (call.mayRepeat && !areAllComplete) {
      this.early.set(call.alike, early);
      early.push(ended);
      return [];
    }
    const ready = areAllComplete ? early.splice(0) : [];
    // Only the first one has chunks that do not wait.
    const all = call.mayRepeat ? [...ready, ended] : [ended, ...ready];
    return all.flatMap((each) => this.settle(each));
  }

  /**
   * The ends of the calls that have none yet.
   * @param isAtLimit the answer ends because of the output limit
   */
  end(isAtLimit: boolean): UIMessageChunk[] {
    const early = [...this.early.values()].flatMap((each) => each.splice(0).flatMap((ended) => this.settle(ended)));
    for (const call of this.open) call.mayRepeat = false;
    const chunks = [...early, ...this.released()];
    for (const { call, listed, part } of this.unsure) {
      const isCut = isAtLimit && (part.invalid === true || call === this.newest);
      chunks.push(this.ended(call, listed, part, isCut));
    }
    for (const call of this.open) {
      chunks.push(...this.chunks.delta(call, call.cleaner.end()));
      chunks.push(this.ended(call, this.listed(call, call.text), undefined, isAtLimit));
    }
    for (const part of this.foreign.values()) chunks.push(foreignEnd(part));
    return chunks;
  }

  /** What comes of a complete call, now that it is known whether it repeats another. */
  private settle({ call, part, isStreamed }: EndedCall): UIMessageChunk[] {
    const input = cleanJson(part.input);
    call.mayRepeat = false;
    if (call.alike.repeats(input) && call.held) {
      call.held = [];
      return this.released();
    }
    const rest = this.chunks.delta(call, call.cleaner.end());
    const listed = this.listed(call, input);
    if (!mayBeCut(part, isStreamed && call.text === '')) {
      return this.sent(call, [...rest, this.ended(call, listed, part)]);
    }
    this.unsure.push({ call, listed, part });
    return this.sent(call, isStreamed ? rest : [this.chunks.start(call, part)]);
  }

  private begin(partId: string, name: string): Call {
    const providerId = sentId(partId);
    const alike = this.known.alike(providerId, name);
    const mayRepeat = alike.begins();
    const held = mayRepeat || this.waiting.length > 0 ? [] : undefined;
    const ids = { partId, providerId, toolCallId: this.newToolCallId() };
    const call: Call = { ...ids, name, cleaner: new JsonTextCleaner(), text: '', alike, mayRepeat, held };
    if (held) this.waiting.push(call);
    this.newest = call;
    return call;
  }

  /** Chunks of a call, unless they wait. */
  private sent(call: Call, chunks: UIMessageChunk[]): UIMessageChunk[] {
    if (call.held === undefined) return chunks;
    call.held.push(...chunks);
    return this.released();
  }

  /** The chunks that need not wait any more. */
  private released(): UIMessageChunk[] {
    const until = this.waiting.findIndex(({ mayRepeat }) => mayRepeat);
    const free = this.waiting.splice(0, until < 0 ? this.waiting.length : until);
    const chunks = free.flatMap(({ held }) => held ?? []);
    for (const call of free) call.held = undefined;
    return chunks;
  }

  private listed({ toolCallId, name }: Call, input: unknown): StepToolCall {
    const listed = { toolCallId, toolName: this.chunks.named(name).toolName, input };
    this.all.push(listed);
    return listed;
  }

  /** @param part the call's last part, if it came */
  private ended(call: Call, listed: StepToolCall, part?: PartOf<'tool-call'>, isCut = false): UIMessageChunk {
    const chunk = this.chunks.end(call, { input: listed.input, ...(part && { part }), isCut });
    if (chunk.type === 'tool-input-error') listed.invalid = true;
    this.isCut ||= isCut;
    return chunk;
  }
}

/** Its input is no JSON, or nothing came of it: the SDK takes that for an empty object. */
function mayBeCut({ invalid, input }: PartOf<'tool-call'>, isEmpty: boolean): boolean {
  if (invalid) return typeof input === 'string';
  return isEmpty && Object.keys((input ?? {}) as object).length === 0;
}
