import type { UIMessageChunk } from 'ai';
import { isTextPart, type LostPart, type PartData, type PartSnapshot, settledText } from '../../domain/part-data.ts';
import type { PermissionRecord } from '../../domain/permissions.ts';
import { rowsToChunks } from '../../domain/rows-to-chunks.ts';
import type { RunFailure, RunState } from '../../domain/runs.ts';
import { NOTHING_SEEN, type Seen } from '../../domain/seen-part.ts';
import type { Batch } from '../parts/chunks-to-rows.ts';
import { outcomeOf, TOOL_NOT_RUN } from '../tools/attempt-tool-call.ts';
import { withDecision } from '../tools/decide-call.ts';
import { failedWith, type ToolResult } from '../tools/execute-tool.ts';

/** States of a call that has no outcome. */
const OPEN_CALL: ReadonlySet<unknown> = new Set(['input-streaming', 'input-available']);

/**
 * An answer in memory. It is written like the rows in Postgres, and its chunks are computed as a reader of rows computes
 * them: from the difference to the last reading.
 */
export class MemoryAnswer<Metadata extends Record<string, unknown>> {
  metadata: Metadata;
  private readonly sessionId: string;
  private readonly id: string;
  private readonly byId = new Map<string, LostPart>();
  private seen: Seen = NOTHING_SEEN;

  constructor(sessionId: string, id: string, metadata: Metadata) {
    this.sessionId = sessionId;
    this.id = id;
    this.metadata = metadata;
  }

  /** The answer's parts, in order, with all of their text. */
  get parts(): PartData[] {
    return this.from(0).map(wholeData);
  }

  /** The parts from an index on, in order. */
  from(index: number): LostPart[] {
    return [...this.byId.values()].filter((part) => part.index >= index).toSorted((a, b) => a.index - b.index);
  }

  /** The chunks that begin the answer. */
  start(): UIMessageChunk[] {
    return this.read([]);
  }

  /** Stores a batch; returns its chunks. */
  write({ parts, deltas }: Batch): UIMessageChunk[] {
    const changed = new Map<string, LostPart>();
    for (const part of parts) {
      changed.set(part.id, { ...part, text: part.settled ? null : (this.byId.get(part.id)?.text ?? null) });
    }
    for (const { part_id, text } of deltas) {
      const part = changed.get(part_id) ?? this.byId.get(part_id);
      if (part !== undefined) changed.set(part_id, { ...part, text: (part.text ?? '') + text });
    }
    return this.store([...changed.values()]);
  }

  /** Stores the outcome of a tool call, and by which decision it ran; returns its chunks. */
  settleCall(toolCallId: string, result: ToolResult, allowed?: PermissionRecord): UIMessageChunk[] {
    return this.callsOf(toolCallId).flatMap((part) =>
      this.settle(part, allowed ? withDecision(part.data, allowed) : part.data, result),
    );
  }

  /** Stores that a tool call was denied; returns its chunks. */
  denyCall(toolCallId: string, approval: object, permission: PermissionRecord): UIMessageChunk[] {
    const denied = { state: 'output-denied', approval };
    const denyOne = (part: LostPart): LostPart => {
      return { ...part, data: { ...withDecision(part.data, permission), ...denied } };
    };
    return this.store(this.callsOf(toolCallId).map(denyOne));
  }

  /** Ends the answer; returns its last chunks. An error gives open tool calls an outcome. */
  end(state: Extract<RunState, 'finished' | 'aborted'> | RunFailure): UIMessageChunk[] {
    if (typeof state === 'string') return this.read([], state);
    const open = this.from(0).filter(({ data }) => OPEN_CALL.has(data['state']));
    const closed = open.flatMap((part) => {
      const { rawInput: _, ...data } = part.data;
      return this.settle(part, data.type === 'dynamic-tool' ? data : part.data, failedWith(TOOL_NOT_RUN));
    });
    return [...closed, ...this.read([], 'error', state)];
  }

  private callsOf(toolCallId: string): LostPart[] {
    return this.from(0).filter(({ data }) => data['toolCallId'] === toolCallId);
  }

  private settle(part: LostPart, data: PartData, result: ToolResult): UIMessageChunk[] {
    return this.store([{ ...part, data: { ...data, ...outcomeOf(result) } }]);
  }

  private store(parts: LostPart[]): UIMessageChunk[] {
    for (const part of parts) this.byId.set(part.id, part);
    return this.read(parts);
  }

  private read(parts: LostPart[], state: RunState = 'running', failure?: RunFailure): UIMessageChunk[] {
    const { seen, chunks } = rowsToChunks(this.seen, {
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
function wholeData({ data, text }: LostPart): PartData {
  return text !== null && isTextPart(data) ? { ...data, text: settledText(data) + text } : data;
}

/** The deltas of a part follow the text in its data. A tool's raw input is in deltas only. */
function snapshotOf({ id, index, data, text }: LostPart): PartSnapshot {
  return { id, index, data, text, text_start: text === null ? null : isTextPart(data) ? settledText(data).length : 0 };
}
