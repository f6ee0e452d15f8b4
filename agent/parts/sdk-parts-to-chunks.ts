import type { LanguageModelStreamPart, UIMessageChunk } from 'ai';
import { type Cleaner, TextCleaner } from '../../domain/text.ts';
import type { ToolDefinition } from '../definition/define.ts';
import type { StepToolCall } from './call-chunks.ts';
import { metadataOf, type PartOf, sdkChunks } from './sdk-chunks.ts';
import { StepCalls } from './step-calls.ts';

type Part = LanguageModelStreamPart;
type TextKind = 'text' | 'reasoning';

/** A text from its start to its end. */
interface OpenText {
  kind: TextKind;
  id: string;
  cleaner: Cleaner;
}

/**
 * Converts the parts of one model call to UIMessage chunks; those of tool calls with `StepCalls`:
 *
 * 1. U+0000 and lone surrogates in texts are replaced; a surrogate pair that is split over two deltas is kept.
 * 2. `start-step` is sent with the first content: a call that fails before any content leaves no step.
 * 3. What is still open when the step ends is ended before `finish-step`.
 */
export class SdkPartsToChunks {
  private readonly calls: StepCalls;
  private readonly texts = new Map<string, OpenText>();
  private started = false;
  /** No text, tool call or file has come. */
  isEmpty = true;

  constructor(tools: readonly ToolDefinition[], newToolCallId: () => string) {
    this.calls = new StepCalls(tools, newToolCallId);
  }

  /** In the model's order. */
  get toolCalls(): StepToolCall[] {
    return this.calls.all;
  }

  of(part: Part): UIMessageChunk[] {
    this.isEmpty &&= !isContent(part);
    const chunks = this.chunksOf(part);
    if (chunks.length === 0 || this.started) return chunks;
    this.started = true;
    return [{ type: 'start-step' }, ...chunks];
  }

  /** The output limit has cut a tool call. */
  get isCut(): boolean {
    return this.calls.isCut;
  }

  /**
   * The step's last chunks.
   * @param finishReason the AI SDK's
   */
  end(finishReason: string): UIMessageChunk[] {
    const start: UIMessageChunk[] = this.started ? [] : [{ type: 'start-step' }];
    const texts = [...this.texts.values()].flatMap(({ kind, id }) => this.textEnd(kind, { type: `${kind}-end`, id }));
    return [...start, ...texts, ...this.calls.end(finishReason === 'length'), { type: 'finish-step' }];
  }

  private chunksOf(part: Part): UIMessageChunk[] {
    switch (part.type) {
      case 'text-start':
        return this.textStart('text', part);
      case 'reasoning-start':
        return this.textStart('reasoning', part);
      case 'text-delta':
        return this.textDelta('text', part);
      case 'reasoning-delta':
        return this.textDelta('reasoning', part);
      case 'text-end':
        return this.textEnd('text', part);
      case 'reasoning-end':
        return this.textEnd('reasoning', part);
      case 'tool-input-start':
        return this.calls.start(part);
      case 'tool-input-delta':
        return this.calls.delta(part);
      case 'tool-call':
        return this.calls.complete(part);
      case 'tool-error':
        // The error of an invalid call is sent with the call.
        return part.providerExecuted ? sdkChunks(part) : [];
      case 'custom':
        // A first token count, not content.
        return part.kind === 'anthropic.message_start' ? [] : sdkChunks(part);
      case 'file':
      case 'reasoning-file':
      case 'source':
      case 'tool-result':
        return sdkChunks(part);
      default:
        return [];
    }
  }

  private textStart(kind: TextKind, part: PartOf<'text-start' | 'reasoning-start'>): UIMessageChunk[] {
    const key = textKey(part);
    const before = this.texts.has(key) ? this.textEnd(kind, { type: `${kind}-end`, id: part.id }) : [];
    this.texts.set(key, { kind, id: part.id, cleaner: new TextCleaner() });
    return [...before, ...sdkChunks(part)];
  }

  private textDelta(kind: TextKind, part: PartOf<'text-delta' | 'reasoning-delta'>): UIMessageChunk[] {
    const delta = this.cleanerOf(part).push(part.text);
    // Anthropic sends the signature of reasoning in a delta without text.
    return delta === '' && !part.providerMetadata
      ? []
      : [{ type: `${kind}-delta`, id: part.id, delta, ...metadataOf(part) }];
  }

  private textEnd(kind: TextKind, part: PartOf<'text-end' | 'reasoning-end'>): UIMessageChunk[] {
    const rest = this.cleanerOf(part).end();
    this.texts.delete(textKey(part));
    return [...(rest ? [{ type: `${kind}-delta`, id: part.id, delta: rest } as const] : []), ...sdkChunks(part)];
  }

  private cleanerOf(part: { type: string; id: string }): Cleaner {
    const text = this.texts.get(textKey(part));
    if (text === undefined) throw new Error(`the model sent a ${part.type} of a part that has not begun`);
    return text.cleaner;
  }
}

function isContent(part: Part): boolean {
  if (part.type === 'text-delta') return /\S/.test(part.text);
  return part.type === 'tool-input-start' || part.type === 'tool-call' || part.type === 'file';
}

function textKey(part: { type: string; id: string }): string {
  return `${part.type.slice(0, 4)}:${part.id}`;
}
