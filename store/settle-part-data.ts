import { parsePartialJson } from 'ai';
import { isInputOpen, isTextPart, isToolPart, type PartData, settledText } from '../domain/part-data.ts';

/**
 * A part with its deltas applied: equal to what the AI SDK's reducer builds from the chunks that a reader receives.
 *
 * @param data the row's `data`
 * @param text the part's deltas that are not in `data`, joined in order; null if there are none
 */
export async function settlePartData(data: PartData, text: string | null): Promise<PartData> {
  if (isTextPart(data)) return text === null ? data : { ...data, text: settledText(data) + text };
  if (!isToolPart(data)) return data;
  const raw = settledText(data) + (text ?? '');
  if (raw === '' || !isInputOpen(data, raw)) return data;
  const { input: _input, rawInput: _rawInput, inputEncoding, ...call } = data;
  const input = inputEncoding === 'text' ? raw : (await parsePartialJson(raw)).value;
  const streaming = data['state'] === 'input-streaming';
  return {
    ...call,
    ...(streaming && inputEncoding !== undefined && { inputEncoding }),
    ...(input !== undefined && { input }),
    // The SDK's reducer drops the raw input of failed calls of dynamic tools only.
    ...((streaming || data.type !== 'dynamic-tool') && { rawInput: raw }),
  };
}
