/** A part of the AI SDK's UIMessage. */
export interface PartData {
  type: string;
  [key: string]: unknown;
}

/** A part's row, with the text streamed since `data` was last written. */
export interface PartSnapshot {
  /** Also the chunk id of a text part, and the `id` of a reasoning part. */
  id: string;
  index: number;
  data: PartData;
  /** The deltas not yet in `data`, joined; null if there are none. */
  text: string | null;
  /** Offset of `text` in the part's whole text, in UTF-16 units. */
  text_start: number | null;
}

/** A part of an answer as it is written. */
export interface PartWrite {
  id: string;
  index: number;
  type: string;
  data: PartData;
  tool_call_id?: string | null;
  tool_state?: string | null;
  /** All of its text is in `data`: its deltas are deleted. */
  settled?: boolean;
}

/** Text appended to a part. */
export interface DeltaWrite {
  part_id: string;
  /** Offset in the part's text, in UTF-16 units. */
  start: number;
  text: string;
}

/** A part that a lost attempt left; `text` is what was streamed since `data` was last written. */
export interface LostPart extends PartWrite {
  text: string | null;
}

/** Whether the part is a tool call, of a static or a dynamic tool. */
export function isToolPart(data: { type: string }): boolean {
  return data.type === 'dynamic-tool' || data.type.startsWith('tool-');
}

/** The name of the tool that a tool part calls. */
export function toolNameOf(data: { type: string; toolName?: unknown }): string {
  return data.type === 'dynamic-tool' ? String(data.toolName) : data.type.slice('tool-'.length);
}

export function isTextPart(data: PartData): boolean {
  return data.type === 'text' || data.type === 'reasoning';
}

/** The text in `data` that deltas are appended to: that of a text part, or the raw JSON of a tool call's input. */
export function settledText(data: PartData): string {
  const text = isTextPart(data) ? data['text'] : data['rawInput'];
  return typeof text === 'string' ? text : '';
}

/** Whether the input of a call is incomplete: `input` is then parsed from `raw`, the part of its JSON that has come. */
export function isInputOpen(data: PartData, raw: string): boolean {
  if (data['state'] === 'input-streaming') return true;
  return data['state'] === 'output-error' && raw !== '' && (!('input' in data) || 'rawInput' in data);
}
