import { parsePartialJson } from 'ai';
import type { LostPart, PartData, PartWrite } from '../../domain/part-data.ts';

export interface WithProviderMetadata {
  providerMetadata?: unknown;
}

/** A chunk's provider metadata, if any. */
export function providerMetadataOf(chunk: WithProviderMetadata): WithProviderMetadata {
  return chunk.providerMetadata === undefined ? {} : { providerMetadata: chunk.providerMetadata };
}

interface ToolChunk extends WithProviderMetadata {
  toolCallId: string;
  toolName: string;
  dynamic?: boolean;
  title?: string;
  providerExecuted?: boolean;
}

/** A tool call's part as a chunk of its input makes it. */
export function toolPart(chunk: ToolChunk, state: string): PartData {
  return {
    ...(chunk.dynamic ? { type: 'dynamic-tool', toolName: chunk.toolName } : { type: `tool-${chunk.toolName}` }),
    toolCallId: chunk.toolCallId,
    state,
    ...(chunk.title === undefined ? {} : { title: chunk.title }),
    ...(chunk.providerExecuted === undefined ? {} : { providerExecuted: chunk.providerExecuted }),
    // The SDK's reducer keeps the metadata of an outcome apart from that of the call.
    ...(chunk.providerMetadata === undefined
      ? {}
      : { [state === 'output-error' ? 'resultProviderMetadata' : 'callProviderMetadata']: chunk.providerMetadata }),
  };
}

/** The columns of a tool call's part. */
export function partColumns(data: Record<string, unknown>): Pick<PartWrite, 'tool_call_id' | 'tool_state'> {
  return typeof data['toolCallId'] === 'string'
    ? { tool_call_id: data['toolCallId'], tool_state: data['state'] as string }
    : {};
}

/** The final form of a part that a lost attempt left incomplete; undefined if it was complete. */
export async function endOfLostPart({ text, ...part }: LostPart): Promise<PartWrite | undefined> {
  const { data } = part;
  if (data['state'] === 'streaming') {
    const whole = `${data['text'] as string}${text ?? ''}`;
    return { ...part, data: { ...data, text: whole, state: 'done' }, settled: true };
  }
  if (data['state'] !== 'input-streaming' && data['state'] !== 'input-available') return undefined;
  const input = text === null ? data['input'] : (await parsePartialJson(text)).value;
  const ended = { ...data, input, state: 'output-error', errorText: 'interrupted before it began' };
  return { ...part, data: ended, ...partColumns(ended), settled: true };
}
