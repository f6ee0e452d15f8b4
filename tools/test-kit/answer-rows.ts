import type { PartData, PartSnapshot } from '../../domain/part-data.ts';
import type { AnswerSnapshot } from '../../domain/rows-to-chunks.ts';
import type { RunState } from '../../domain/runs.ts';
import type { Cursor } from '../../domain/seen-part.ts';
import { settlePartData } from '../../store/settle-part-data.ts';

/** A part's row. */
export interface Row {
  id: string;
  index: number;
  data: PartData;
  deltas: { start: number; text: string }[];
}

/** An answer's rows in memory, written like the recorder and read like the store. */
export class AnswerRows {
  readonly rows: Row[] = [];
  state: RunState = 'running';
  metadata: Record<string, unknown> | null = null;
  private attempt = 0;

  /** The rows of the newest attempt in one of these states: only they may still change. */
  open(...states: string[]): Row[] {
    return this.rows.filter(({ index, data }) => index >= this.attempt && states.includes(String(data['state'])));
  }

  /** The calls whose input may still grow: models send it, and the reducer accepts it, in the current step only. */
  openInputs(): Row[] {
    const step = this.rows.findLast((row) => row.data.type === 'step-start')?.index ?? -1;
    return this.open('input-streaming').filter((row) => row.index > step);
  }

  add(data: PartData): Row {
    this.metadata ??= { system_prompt_digest: 'd' };
    const index = this.rows.length;
    const id = `prt_${index}`;
    const row = { id, index, data: data.type === 'reasoning' ? { ...data, id } : data, deltas: [] };
    this.rows.push(row);
    return row;
  }

  append(row: Row, text: string): void {
    row.deltas.push({ start: this.lengthOf(row), text });
  }

  /** UTF-16 units of a row's text or raw input. */
  lengthOf(row: Row): number {
    const settled = (row.data['text'] ?? row.data['rawInput'] ?? '') as string;
    return settled.length + (joined(row.deltas) ?? '').length;
  }

  /** Changes the `data` of a part other than a tool call, and moves all of its text into `data`. */
  settle(row: Row, change: Record<string, unknown>): void {
    const text = joined(row.deltas);
    row.data = { ...row.data, ...(text !== null && { text: String(row.data['text']) + text }), ...change };
    row.deltas = [];
  }

  /** Replaces a row's `data` and deletes its deltas. */
  replace(row: Row, { without = [], ...change }: { without?: string[] } & Record<string, unknown>): void {
    const kept = Object.entries(row.data).filter(([name]) => !without.includes(name));
    row.data = { ...(Object.fromEntries(kept) as PartData), ...change };
    row.deltas = [];
  }

  /** An attempt was lost: its parts stay, and the next attempt marks that with a part. */
  interrupt(): void {
    this.add({ type: 'data-interrupted', id: `int_${this.rows.length}`, data: {} });
    this.attempt = this.rows.length;
  }

  /** Ends the run like settle_run: texts keep what they have, open calls fail after an error and stay after an abort. */
  end(state: RunState): void {
    for (const row of this.rows) {
      if (!('toolCallId' in row.data)) {
        const ends = state === 'finished' && row.index >= this.attempt && 'state' in row.data;
        this.settle(row, ends ? { state: 'done' } : {});
      } else if (state !== 'aborted' && !String(row.data['state']).startsWith('output-')) {
        row.data = { ...row.data, state: 'output-error', errorText: 'interrupted' };
      }
    }
    this.state = state;
    if (this.metadata) this.metadata = { ...this.metadata, steps: [{ finish_reason: 'stop' }], usage: { input: 1 } };
  }

  snapshot(cursor: Cursor): AnswerSnapshot {
    const units = new Map(cursor.parts.map((part) => [part.id, part.units]));
    const parts = this.rows
      .filter((row) => row.index >= cursor.index)
      .map(({ id, index, data, deltas }): PartSnapshot => {
        const read = deltas.filter((delta) => delta.start >= (units.get(id) ?? 0));
        return { id, index, data, text: joined(read), text_start: read[0]?.start ?? null };
      });
    return structuredClone({
      session_id: 'ses_1',
      message_id: 'msg_a',
      metadata: this.metadata,
      run_state: this.state,
      error_code: null,
      error_message: this.state === 'error' ? 'it broke' : null,
      parts,
    });
  }

  /** The message as it is stored. */
  async stored(): Promise<{ id: string; role: string; metadata: Record<string, unknown>; parts: PartData[] }> {
    const parts = await Promise.all(this.rows.map((row) => settlePartData(row.data, joined(row.deltas))));
    return { id: 'msg_a', role: 'assistant', metadata: { ...this.metadata, session_id: 'ses_1' }, parts };
  }
}

function joined(deltas: { text: string }[]): string | null {
  return deltas.length === 0 ? null : deltas.map((delta) => delta.text).join('');
}
