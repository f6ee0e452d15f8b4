import { parsePartialJson } from './partial-json.ts';

/** A part as the AI SDK's UIMessage has it. */
export interface PartData {
  type: string;
  [key: string]: unknown;
}

/** A part's row, with the text that has streamed in since `data` was last written. */
export interface PartSnapshot {
  /** Also the chunk id of a text, and the `id` of a reasoning. */
  id: string;
  index: number;
  data: PartData;
  /** The deltas that `data` does not hold yet, joined; null: there are none. */
  text: string | null;
  /** Where `text` begins: UTF-16 units of the part's text before it. */
  text_start: number | null;
}

/** True for tool calls, of tools that are known when the agent is written and others. */
export function isToolPart(data: PartData): boolean {
  return data.type === 'dynamic-tool' || data.type.startsWith('tool-');
}

export function isTextPart(data: PartData): boolean {
  return data.type === 'text' || data.type === 'reasoning';
}

/** The text in `data` that deltas continue: a text's own, or the raw JSON of a tool's input. */
export function settledText(data: PartData): string {
  const text = isTextPart(data) ? data['text'] : data['rawInput'];
  return typeof text === 'string' ? text : '';
}

/**
 * True for a call whose input never got complete, though some of it came (`raw` is what came): `input` is then what can
 * be made of that.
 */
export function isInputOpen(data: PartData, raw: string): boolean {
  if (data['state'] === 'input-streaming') return true;
  return data['state'] === 'output-error' && raw !== '' && (!('input' in data) || 'rawInput' in data);
}

/**
 * A part with its deltas applied, equal to what a reader has built of its chunks. The one rule for all who show or
 * settle a part.
 *
 * @param data the row's `data`
 * @param text the part's deltas that `data` does not hold, joined in order; null where there are none
 */
export function settlePartData(data: PartData, text: string | null): PartData {
  if (isTextPart(data)) return text === null ? data : { ...data, text: settledText(data) + text };
  if (!isToolPart(data)) return data;
  const raw = settledText(data) + (text ?? '');
  if (raw === '' || !isInputOpen(data, raw)) return data;
  const { input: _input, rawInput: _rawInput, inputEncoding, ...call } = data;
  const input = inputEncoding === 'text' ? raw : parsePartialJson(raw);
  const streaming = data['state'] === 'input-streaming';
  return {
    ...call,
    ...(streaming && inputEncoding !== undefined && { inputEncoding }),
    ...(input !== undefined && { input }),
    // The SDK's reducer forgets the raw input of a failed call of an unknown tool, and of no other.
    ...((streaming || data.type !== 'dynamic-tool') && { rawInput: raw }),
  };
}
