import type { UIMessageChunk } from 'ai';
import { type Cleaner, cleanText } from '../../domain/text.ts';
import type { ToolDefinition } from '../definition/define.ts';
import { cutCallText, incompleteCallText, invalidCallText } from '../tools/ai-sdk-tools.ts';
import { metadataOf, type PartOf } from './sdk-chunks.ts';

/** A tool call of a step. `input` is the model's JSON, cleaned; the text that has come if it is incomplete. */
export interface StepToolCall {
  toolCallId: string;
  toolName: string;
  input: unknown;
  /** True for an unknown tool, and for bad or incomplete input. Its outcome is an error already. */
  invalid?: boolean;
}

/** A call whose input is being streamed. */
export interface StreamedCall {
  /** The provider's id. */
  providerId: string;
  /** Ours. */
  toolCallId: string;
  /** The tool's name as the model wrote it. */
  name: string;
  cleaner: Cleaner;
  /** The JSON of its input so far, cleaned. */
  text: string;
}

const MAX_TOOL_NAME = 64;

/** Makes the chunks of tool calls. */
export class CallChunks {
  private readonly tools: readonly ToolDefinition[];

  constructor(tools: readonly ToolDefinition[]) {
    this.tools = tools;
  }

  start(call: StreamedCall, part: { providerMetadata?: unknown }): UIMessageChunk {
    const { toolCallId, name } = call;
    return { type: 'tool-input-start', toolCallId, ...this.named(name), ...callMetadata(call, part) };
  }

  /** @param text the next piece of the input, cleaned */
  delta(call: StreamedCall, text: string): UIMessageChunk[] {
    if (text === '') return [];
    call.text += text;
    return [{ type: 'tool-input-delta', toolCallId: call.toolCallId, inputTextDelta: text }];
  }

  /**
   * The end of a call: it can run, or what is wrong with it.
   * @param part the provider's last part of it; undefined: there was none
   * @param isCut the output limit has cut it
   */
  end(call: StreamedCall, { input, part, isCut = false }: CallEnd): UIMessageChunk {
    const { toolCallId, name } = call;
    const chunk = { toolCallId, input, ...this.named(name), ...callMetadata(call, part, isCut) };
    if (part && !part.invalid && !isCut) return { type: 'tool-input-available', ...chunk };
    const { toolName } = chunk;
    if (isCut) return { type: 'tool-input-error', ...chunk, errorText: cutCallText(toolName) };
    const errorText = part ? invalidCallText(toolName, part.error, this.tools) : incompleteCallText(toolName);
    return { type: 'tool-input-error', ...chunk, errorText };
  }

  /**
   * The name under which a call is stored. The part of an unknown tool is dynamic, and characters that providers refuse in
   * a conversation are replaced in its name.
   */
  named(name: string): { toolName: string; dynamic?: true } {
    if (this.tools.some((tool) => tool.name === name)) return { toolName: name };
    const toolName =
      cleanText(name)
        .replaceAll(/[^A-Za-z0-9_-]/g, '_')
        .slice(0, MAX_TOOL_NAME) || 'unknown';
    return { toolName, dynamic: true };
  }
}

interface CallEnd {
  input: unknown;
  part?: PartOf<'tool-call'>;
  isCut?: boolean;
}

/** The end of a call that the provider was to run, and that never became complete. */
export function foreignEnd({ id: toolCallId, toolName, dynamic }: PartOf<'tool-input-start'>): UIMessageChunk {
  return {
    ...{ type: 'tool-input-error', toolCallId, toolName, input: {}, providerExecuted: true },
    ...(dynamic !== undefined && { dynamic }),
    errorText: incompleteCallText(toolName),
  };
}

/** The provider's metadata and id of a call, and whether the output limit has cut it. */
function callMetadata(call: StreamedCall, part: { providerMetadata?: unknown } = {}, isCut = false) {
  const perdure = { providerToolCallId: cleanText(call.providerId).slice(0, 256), ...(isCut && { cut: true }) };
  return { providerMetadata: { ...metadataOf(part).providerMetadata, perdure } };
}
