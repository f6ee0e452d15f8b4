import { parsePartialJson, type UIMessageChunk } from 'ai';
import { newId } from '../../domain/ids.ts';
import type { DeltaWrite, LostPart, PartData, PartWrite } from '../../domain/part-data.ts';
import type { RefusedData } from '../../domain/refusals.ts';
import { endOfLostPart, type WithProviderMetadata, providerMetadataOf, toolPart, partColumns } from './part-columns.ts';

/** What is written in one transaction. */
export interface Batch {
  parts: PartWrite[];
  deltas: DeltaWrite[];
}

interface OpenPart {
  row: PartWrite;
  /** Text so far, in UTF-16 units: that of a text or reasoning part, or the raw input of a tool call. */
  text: string;
  /** How much of `text` has been taken. */
  written: number;
  stored: boolean;
}

/**
 * Turns the chunks of one step into rows. It owns the step's parts: their ids, indexes and text so far.
 *
 * 1. A part is inserted once, its growth is appended as deltas, and it is written whole again only when it is complete.
 * 2. `take` returns each change once. A batch that could not be written is not returned again.
 * 3. A reader of the rows gets the message that the AI SDK's reducer makes of the chunks.
 */
export class ChunksToRows {
  private readonly open = new Map<string, OpenPart>();
  private readonly changed = new Map<string, OpenPart>();
  private readonly finished: PartWrite[] = [];
  private index: number;
  private content = false;

  constructor(firstIndex: number) {
    this.index = firstIndex;
  }

  /** Index of the next part. */
  get nextIndex(): number {
    return this.index;
  }

  /** Whether there is content to write. A `step-start` alone is written with the first content of its step. */
  get dirty(): boolean {
    return this.content;
  }

  /** Ends the parts that a lost attempt left incomplete, and adds a `data-interrupted` part after them. */
  async interrupt(lost: readonly LostPart[]): Promise<void> {
    const last = lost.at(-1);
    if (last === undefined) return;
    this.index = last.index + 1;
    // The attempt was lost before its first content: the part is that of the attempt before it.
    if (last.type === 'data-interrupted') return;
    for (const part of lost) {
      const ended = await endOfLostPart(part);
      if (ended) this.finish(ended);
    }
    this.whole({ type: 'data-interrupted', id: newId('prt'), data: {} });
  }

  /** Adds a part that says which messages, or files of which, were refused, if there are any. Call it last. */
  refuse(data: RefusedData): void {
    if (data.messages.length > 0) this.whole({ type: 'data-refused', id: newId('prt'), data });
  }

  /** Adds one chunk of the step. */
  add(chunk: UIMessageChunk): void {
    switch (chunk.type) {
      case 'start-step':
        return this.whole({ type: 'step-start' });
      case 'text-start':
        return this.begin(chunk.id, { type: 'text', text: '', state: 'streaming', ...providerMetadataOf(chunk) });
      case 'reasoning-start':
        return this.begin(chunk.id, { type: 'reasoning', text: '', state: 'streaming', ...providerMetadataOf(chunk) });
      case 'text-delta':
      case 'reasoning-delta':
        return this.grow(chunk.id, chunk.delta, providerMetadataOf(chunk));
      case 'text-end':
      case 'reasoning-end':
        return this.end(chunk.id, { state: 'done', ...providerMetadataOf(chunk) });
      case 'tool-input-start':
        return this.begin(chunk.toolCallId, toolPart(chunk, 'input-streaming'));
      case 'tool-input-delta':
        return this.grow(chunk.toolCallId, chunk.inputTextDelta, {});
      case 'tool-input-available':
        return this.settleTool(chunk.toolCallId, { ...toolPart(chunk, 'input-available'), input: chunk.input });
      case 'tool-input-error': {
        const failed = { ...toolPart(chunk, 'output-error'), input: chunk.input, errorText: chunk.errorText };
        return this.settleTool(chunk.toolCallId, failed);
      }
      case 'finish-step':
      case 'start':
      case 'finish':
      case 'message-metadata':
        return;
      default:
        return this.whole(chunk);
    }
  }

  /** Everything since the last `take`. */
  take(): Batch {
    const parts = this.finished.splice(0);
    const deltas: DeltaWrite[] = [];
    for (const part of this.changed.values()) {
      if (!part.stored) {
        parts.push(firstRow(part));
        part.stored = true;
        // The raw input of a tool call is in its deltas only, not in its data.
        if (part.row.tool_call_id === undefined) part.written = part.text.length;
      }
      if (part.written < part.text.length) {
        deltas.push({ part_id: part.row.id, start: part.written, text: part.text.slice(part.written) });
        part.written = part.text.length;
      }
    }
    this.changed.clear();
    this.content = false;
    return { parts, deltas };
  }

  /** Gives each open tool call the input received so far. Call it last, when a step is aborted. */
  async freeze(): Promise<void> {
    for (const part of this.open.values()) {
      if (part.row.tool_call_id === undefined || part.text === '') continue;
      const { value } = await parsePartialJson(part.text);
      this.finish({ ...part.row, data: { ...part.row.data, input: value, rawInput: part.text }, settled: true });
      this.changed.delete(part.row.id);
    }
  }

  private newRow(data: PartData): PartWrite {
    const id = newId('prt');
    const row = { id, index: this.index, type: data.type, data, ...partColumns(data) };
    this.index += 1;
    return row;
  }

  private whole(data: PartData): void {
    this.finish({ ...this.newRow(data), settled: true });
  }

  private finish(part: PartWrite): void {
    this.finished.push(part);
    this.content ||= part.type !== 'step-start';
  }

  private change(part: OpenPart): void {
    this.changed.set(part.row.id, part);
    this.content = true;
  }

  private begin(key: string, data: PartData): void {
    const row = this.newRow(data);
    if (data.type === 'reasoning') row.data = { ...data, id: row.id };
    const part: OpenPart = { row, text: '', written: 0, stored: false };
    this.open.set(key, part);
    // An empty text is not written yet; the name of a tool is.
    if (row.tool_call_id !== undefined) this.change(part);
  }

  private grow(key: string, text: string, more: WithProviderMetadata): void {
    const part = this.open.get(key);
    if (part === undefined || (text === '' && Object.keys(more).length === 0)) return;
    part.text += text;
    part.row.data = { ...part.row.data, ...more };
    this.change(part);
  }

  private end(key: string, more: Record<string, unknown>): void {
    const part = this.open.get(key);
    if (part === undefined) return;
    this.open.delete(key);
    this.changed.delete(part.row.id);
    this.finish({ ...part.row, data: { ...part.row.data, text: part.text, ...more }, settled: true });
  }

  private settleTool(key: string, data: PartData): void {
    const part = this.open.get(key);
    if (part === undefined) return this.whole(data);
    this.open.delete(key);
    this.changed.delete(part.row.id);
    const merged: typeof data = { ...part.row.data, ...data };
    this.finish({ ...part.row, type: merged.type, data: merged, ...partColumns(merged), settled: true });
  }
}

function firstRow(part: OpenPart): PartWrite {
  if (part.row.tool_call_id !== undefined) return part.row;
  return { ...part.row, data: { ...part.row.data, text: part.text } };
}
