import {
  type LanguageModelStreamPart,
  type TextStreamPart,
  toUIMessageChunk,
  type ToolSet,
  type UIMessageChunk,
} from 'ai';
import { type Cleaner, cleanJson, cleanText, JsonTextCleaner, TextCleaner } from '../domain/text.ts';
import type { ToolDefinition } from './define.ts';
import { invalidCallText } from './step-tools.ts';

/** A tool call of a step. `input` is the model's JSON, cleaned. */
export interface StepToolCall {
  toolCallId: string;
  toolName: string;
  input: unknown;
  /** True for an unknown tool or bad input. Its outcome is an error already. */
  invalid?: boolean;
}

type Part = LanguageModelStreamPart;
type PartOf<T extends Part['type']> = Extract<Part, { type: T }>;
type TextKind = 'text' | 'reasoning';

interface OpenCall {
  providerId: string;
  id: string;
  cleaner: Cleaner;
}

const MAX_TOOL_NAME = 64;

/**
 * Converts the parts of one model call to UIMessage chunks:
 *
 * 1. Each tool call gets an id of ours when its input starts, or when it arrives complete. The provider's ids may repeat
 *    within a step: deltas belong to the latest call with the id, and inputs complete in the order in which they started.
 * 2. U+0000 and lone surrogates in texts are replaced; a surrogate pair that is split over two deltas is kept.
 * 3. `start-step` is sent with the first content: a call that fails before any content leaves no step.
 */
export class StepChunks {
  readonly toolCalls: StepToolCall[] = [];
  private readonly tools: readonly ToolDefinition[];
  private readonly newToolCallId: () => string;
  private readonly texts = new Map<string, Cleaner>();
  private readonly openCalls: OpenCall[] = [];
  private started = false;

  constructor(tools: readonly ToolDefinition[], newToolCallId: () => string) {
    this.tools = tools;
    this.newToolCallId = newToolCallId;
  }

  of(part: Part): UIMessageChunk[] {
    const chunks = this.chunksOf(part);
    if (chunks.length === 0 || this.started) return chunks;
    this.started = true;
    return [{ type: 'start-step' }, ...chunks];
  }

  /** The step's last chunks. */
  end(): UIMessageChunk[] {
    return this.started ? [{ type: 'finish-step' }] : [{ type: 'start-step' }, { type: 'finish-step' }];
  }

  private chunksOf(part: Part): UIMessageChunk[] {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.texts.set(textKey(part), new TextCleaner());
        return other(part);
      case 'text-delta':
        return this.textDelta('text', part);
      case 'reasoning-delta':
        return this.textDelta('reasoning', part);
      case 'text-end':
        return this.textEnd('text', part);
      case 'reasoning-end':
        return this.textEnd('reasoning', part);
      case 'tool-input-start':
        return this.toolInputStart(part);
      case 'tool-input-delta':
        return this.toolInputDelta(part);
      case 'tool-call':
        return this.toolCall(part);
      case 'tool-error':
        // The error of an invalid call is sent with the call.
        return part.providerExecuted ? other(part) : [];
      case 'custom':
        // A first token count, not content.
        return part.kind === 'anthropic.message_start' ? [] : other(part);
      case 'file':
      case 'reasoning-file':
      case 'source':
      case 'tool-result':
        return other(part);
      default:
        return [];
    }
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
    return [...(rest ? [{ type: `${kind}-delta`, id: part.id, delta: rest } as const] : []), ...other(part)];
  }

  private cleanerOf(part: { type: string; id: string }): Cleaner {
    const cleaner = this.texts.get(textKey(part));
    if (cleaner === undefined) throw new Error(`the model sent a ${part.type} of a part that has not begun`);
    return cleaner;
  }

  private toolInputStart(part: PartOf<'tool-input-start'>): UIMessageChunk[] {
    if (part.providerExecuted) return other(part);
    const { id } = this.open(part.id);
    const { toolName, dynamic } = this.named(part.toolName);
    return [{ type: 'tool-input-start', toolCallId: id, toolName, ...dynamic, ...callMetadata(part.id, part) }];
  }

  private toolInputDelta(part: PartOf<'tool-input-delta'>): UIMessageChunk[] {
    const call = this.openCalls.findLast((open) => open.providerId === part.id);
    if (!call) return other(part);
    return inputDelta(call.id, call.cleaner.push(part.delta));
  }

  private toolCall(part: PartOf<'tool-call'>): UIMessageChunk[] {
    if (part.providerExecuted) return other(part);
    const { id: toolCallId, cleaner } = this.close(part.toolCallId);
    const { toolName, dynamic } = this.named(part.toolName);
    const input = cleanJson(part.input);
    const chunk = { toolCallId, toolName, input, ...dynamic, ...callMetadata(part.toolCallId, part) };
    const rest = inputDelta(toolCallId, cleaner.end());
    if (!part.invalid) {
      this.toolCalls.push({ toolCallId, toolName, input });
      return [...rest, { type: 'tool-input-available', ...chunk }];
    }
    this.toolCalls.push({ toolCallId, toolName, input, invalid: true });
    const errorText = invalidCallText(toolName, part.error, this.tools);
    return [...rest, { type: 'tool-input-error', ...chunk, errorText }];
  }

  private open(providerId: string): OpenCall {
    const call = { providerId, id: this.newToolCallId(), cleaner: new JsonTextCleaner() };
    this.openCalls.push(call);
    return call;
  }

  /** The call that is complete now: an open one, or a new one that arrived complete. */
  private close(providerId: string): OpenCall {
    const at = this.openCalls.findIndex((open) => open.providerId === providerId);
    return (
      this.openCalls.splice(at, at < 0 ? 0 : 1)[0] ?? {
        providerId,
        id: this.newToolCallId(),
        cleaner: new JsonTextCleaner(),
      }
    );
  }

  /**
   * The name under which a call is stored. The part of an unknown tool is dynamic, and characters that providers refuse in
   * a conversation are replaced in its name.
   */
  private named(name: string): { toolName: string; dynamic: { dynamic?: true } } {
    if (this.tools.some((tool) => tool.name === name)) return { toolName: name, dynamic: {} };
    const toolName =
      cleanText(name)
        .replaceAll(/[^A-Za-z0-9_-]/g, '_')
        .slice(0, MAX_TOOL_NAME) || 'unknown';
    return { toolName, dynamic: { dynamic: true } };
  }
}

function textKey(part: { type: string; id: string }): string {
  return `${part.type.slice(0, 4)}:${part.id}`;
}

function inputDelta(toolCallId: string, inputTextDelta: string): UIMessageChunk[] {
  return inputTextDelta === '' ? [] : [{ type: 'tool-input-delta', toolCallId, inputTextDelta }];
}

/** The SDK's chunk for a part, with cleaned strings. */
function other(part: Extract<Part, TextStreamPart<ToolSet>>): UIMessageChunk[] {
  const chunk = toUIMessageChunk(part, { sendSources: true });
  return chunk ? [cleanJson(chunk) as UIMessageChunk] : [];
}

type Metadata = Record<string, Record<string, never>>;

function metadataOf(part: { providerMetadata?: unknown }): { providerMetadata?: Metadata } {
  return part.providerMetadata ? { providerMetadata: cleanJson(part.providerMetadata) as Metadata } : {};
}

/** The provider's metadata and id of a call. */
function callMetadata(providerId: string, part: { providerMetadata?: unknown }) {
  const perdure = { providerToolCallId: cleanText(providerId).slice(0, 256) };
  return { providerMetadata: { ...metadataOf(part).providerMetadata, perdure } };
}
