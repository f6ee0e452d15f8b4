import type { UIMessageChunk } from 'ai';
import { isTextPart, type LostPart, type PartData, type PartSnapshot, settledText } from '../domain/part-data.ts';
import type { RunFailure, RunState } from '../domain/runs.ts';
import { advance } from '../domain/stream.ts';
import { NOTHING_SEEN, type Seen } from '../domain/stream-seen.ts';
import type { Batch } from './part-rows.ts';
import { outcomeOf, TOOL_NOT_RUN } from './tool-call.ts';
import { failedWith, type ToolResult } from './tool.ts';

interface Part extends LostPart {
  text: string;
}

/** States of a call that has no outcome. */
const OPEN_CALL: ReadonlySet<unknown> = new Set(['input-streaming', 'input-available']);

/**
 * An answer in memory, written part by part as the rows in Postgres are, and read as they are: its chunks are the
 * difference to what has been read before.
 */
export class MemoryAnswer<Metadata extends Record<string, unknown>> {
  metadata: Metadata;
  private readonly sessionId: string;
  private readonly id: string;
  private readonly byId = new Map<string, Part>();
  private seen: Seen = NOTHING_SEEN;

  constructor(sessionId: string, id: string, metadata: Metadata) {
    this.sessionId = sessionId;
    this.id = id;
    this.metadata = metadata;
  }

  /** The answer's parts, in order, with all of their text. */
  get parts(): PartData[] {
    return this.rows().map(wholeData);
  }

  /** The chunks that begin the answer. */
  start(): UIMessageChunk[] {
    return this.read([]);
  }

  /** Stores a batch; answers its chunks. */
  write({ parts, deltas }: Batch): UIMessageChunk[] {
    const changed = new Map<string, Part>();
    for (const part of parts) {
      const { text = '' } = part.settled ? {} : (this.byId.get(part.id) ?? {});
      changed.set(part.id, { ...part, text });
    }
    for (const { part_id, text } of deltas) {
      const part = changed.get(part_id) ?? this.byId.get(part_id);
      if (part !== undefined) changed.set(part_id, { ...part, text: part.text + text });
    }
    for (const [id, part] of changed) this.byId.set(id, part);
    return this.read([...changed.values()]);
  }

  /** Stores the outcome of a tool call; answers its chunks. */
  settleCall(toolCallId: string, result: ToolResult): UIMessageChunk[] {
    const part = this.rows().find((row) => row.data['toolCallId'] === toolCallId);
    return part === undefined ? [] : this.replace(part, { ...part.data, ...outcomeOf(result) });
  }

  /** The parts from an index on: what an attempt has left. */
  from(index: number): LostPart[] {
    const left = this.rows().filter((part) => part.index >= index);
    return left.map(({ id, index: at, type, data, text }) => ({
      id,
      index: at,
      type,
      data,
      text: text === '' ? null : text,
    }));
  }

  /** Ends the answer; answers its last chunks. An error gives open tool calls an outcome. */
  end(state: Extract<RunState, 'finished' | 'aborted'> | RunFailure): UIMessageChunk[] {
    if (typeof state === 'string') return this.read([], state);
    const open = this.rows().filter(({ data }) => OPEN_CALL.has(data['state']));
    const closed = open.flatMap((part) => {
      const { rawInput, ...data } = part.data;
      const kept = rawInput === undefined || data.type === 'dynamic-tool' ? data : { ...data, rawInput };
      return this.replace(part, { ...kept, ...outcomeOf(failedWith(TOOL_NOT_RUN)) });
    });
    return [...closed, ...this.read([], 'error', state)];
  }

  private rows(): Part[] {
    return [...this.byId.values()].toSorted((one, other) => one.index - other.index);
  }

  private replace(part: Part, data: PartData): UIMessageChunk[] {
    const replaced = { ...part, data };
    this.byId.set(part.id, replaced);
    return this.read([replaced]);
  }

  private read(parts: Part[], state: RunState = 'running', failure?: RunFailure): UIMessageChunk[] {
    const { seen, chunks } = advance(this.seen, {
      session_id: this.sessionId,
      message_id: this.id,
      metadata: this.byId.size === 0 ? null : this.metadata,
      run_state: state,
      error_code: failure?.code ?? null,
      error_message: failure?.message ?? null,
      parts: parts.map(snapshotOf),
    });
    this.seen = seen;
    return chunks;
  }
}

/** A part's data with all of its text. */
function wholeData({ data, text }: Part): PartData {
  return text !== '' && isTextPart(data) ? { ...data, text: settledText(data) + text } : data;
}

function snapshotOf({ id, index, data, text }: Part): PartSnapshot {
  return { id, index, data, text: text === '' ? null : text, text_start: text === '' ? null : startOf(data) };
}

/** Where the deltas of a part begin: behind the text in its data. A tool's raw input is in deltas alone. */
function startOf(data: PartData): number {
  return typeof data['text'] === 'string' ? data['text'].length : 0;
}
