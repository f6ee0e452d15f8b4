import { z } from 'zod';
import type { DeltaWrite, PartWrite } from '../domain/part-data.ts';
import { call, callAndNotify, type Db, jsonb } from './db.ts';
import { type Claim, callClaimed } from './runs.ts';

// Batches of answers that are being streamed. Each is stored under its run's fence.

/** A batch of an answer, with JSON for its new row and its parts. */
export interface StreamBatch {
  /** Creates the answer's row; null except with the answer's first content. */
  metadata: string | null;
  /** New or changed parts; null: none. */
  parts: string | null;
  deltas: readonly DeltaWrite[];
  /** Characters in all. */
  length: number;
}

/** A batch and the claim under which it is stored. */
export interface StreamWrite {
  claim: Claim;
  batch: StreamBatch;
}

const stored = z.enum(['live', 'abort']);
const landed = z.array(stored.nullable());
const streamState = z.enum([...stored.options, 'lost']);

/** How a batch was stored. `abort`: it was, but the run is to stop. `lost`: it was not, another attempt has the run. */
export type StreamState = z.infer<typeof streamState>;

/** The batch of `parts` and `deltas`. `metadata` is given with the answer's first content only. */
export function streamBatch(
  { parts, deltas }: { parts: readonly PartWrite[]; deltas: readonly DeltaWrite[] },
  metadata?: object,
): StreamBatch {
  const batch = { metadata: jsonb(metadata), parts: parts.length > 0 ? JSON.stringify(parts) : null, deltas };
  const text = deltas.reduce((sum, delta) => sum + delta.text.length, 0);
  return { ...batch, length: text + (batch.parts?.length ?? 0) };
}

/** Stores one batch, and waits if its run is locked. */
export function appendStream(db: Db, { claim, batch }: StreamWrite): Promise<StreamState> {
  const { metadata, parts, deltas } = batch;
  return callClaimed(db, streamState, 'append_stream', claim, [metadata, parts ?? '[]', jsonb(deltas)]);
}

/**
 * Stores batches of several runs in one statement, which waits for none of them.
 * @param notify sends the pointers `stream` of the stored batches, too: of at most 50, which fit into one payload
 * @returns for each batch how it was stored; null: not stored, because its run is locked or another attempt has it
 */
export function appendStreams(
  db: Db,
  writes: readonly StreamWrite[],
  { notify = false }: { notify?: boolean } = {},
): Promise<(z.infer<typeof stored> | null)[]> {
  const claims = writes.map(({ claim }) => claim);
  const deltas = writes.flatMap(({ batch }, index) => batch.deltas.map((delta) => ({ ...delta, batch: index + 1 })));
  return (notify ? callAndNotify : call)(db, landed.length(writes.length), 'append_streams', [
    claims.map(({ sessionId }) => sessionId),
    claims.map(({ runSeq }) => runSeq),
    claims.map(({ fence }) => `{${fence.join(',')}}`),
    writes.map(({ batch }) => batch.metadata),
    writes.map(({ batch }) => batch.parts),
    deltas.map(({ batch }) => batch),
    deltas.map((delta) => delta.part_id),
    deltas.map(({ start }) => start),
    deltas.map(({ text }) => text),
  ]);
}
