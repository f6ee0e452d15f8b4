import { z } from 'zod';
import type { Actor } from '../domain/activities.ts';
import type { Usage } from '../domain/usage.ts';
import { keyReused } from '../wire/input.ts';
import { logEntry } from '../wire/responses.ts';
import { call, column, type Db, jsonb, many } from './db.ts';
import { isoTime, MAX_PAGE_BYTES } from './results.ts';
import type { Claim } from './runs.ts';

const eventRow = logEntry.extend({ at: isoTime });

/** An entry of a session's log. */
export type SessionEvent = z.output<typeof eventRow>;

/** The events after number `after`, oldest first: at most `limit`, and `MAX_PAGE_BYTES` unless one is larger. */
export async function readEvents(
  db: Db,
  sessionId: string,
  after: number,
  limit: number,
): Promise<{ items: SessionEvent[]; more: boolean }> {
  const rows = await many(
    db,
    eventRow.extend({ found: z.number() }),
    `SELECT seq, at, kind, actor, data, found
       FROM (
         SELECT *, count(*) OVER () AS found, row_number() OVER one_by_one AS nth,
                sum(octet_length(data::text)) OVER one_by_one AS bytes
           FROM (SELECT * FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3 + 1) events
         WINDOW one_by_one AS (ORDER BY seq)
       ) page
      WHERE nth = 1 OR (nth <= $3 AND bytes <= $4)
      ORDER BY seq`,
    [sessionId, after, limit, MAX_PAGE_BYTES],
  );
  return { items: rows.map(({ found: _found, ...event }) => event), more: (rows[0]?.found ?? 0) > rows.length };
}

/**
 * Stores the text of a command's reason, once per `id`, and returns the number of its event. Null: the command has none, which is only
 * compared with what it had before.
 * @throws {InvalidInputError} `KeyReused`: the command was sent with another reason, or with or without one
 */
export async function logReason(
  db: Db,
  sessionId: string,
  actor: Actor,
  reason: string | null,
  id: string,
): Promise<number> {
  const seq = await call(db, z.number().nullable(), 'log_reason', [sessionId, actor, reason, id]);
  if (seq === null) throw keyReused();
  return seq;
}

/** Stores the metadata that a command brings, once per `id`. Null and errors as with `logReason`. */
export async function logMetadata(db: Db, sessionId: string, metadata: object | null, id: string): Promise<void> {
  const stored = await call(db, z.boolean().nullable(), 'log_metadata', [sessionId, jsonb(metadata), id]);
  if (stored === null) throw keyReused();
}

/** What a call of a model has cost that is no step. */
export interface Spent {
  usage: Usage;
  /** `provider/model`. */
  model: string;
  finish_reason: string;
  cost_usd?: number;
}

/** Records a provider's failure and what was spent on it, once per attempt; nothing if another attempt has the run. */
export function logProviderError(
  db: Db,
  { sessionId, runSeq, fence }: Claim,
  data: object,
  spent?: Spent,
): Promise<boolean> {
  const given = jsonb({ ...data, ...(spent && { spent }) });
  return call(db, z.boolean(), 'log_provider_error', [sessionId, runSeq, fence, given]);
}

/** The full output of a tool call that was truncated for the model. */
export async function readToolOutput(db: Db, sessionId: string, toolCallId: string): Promise<string | undefined> {
  const sql = 'SELECT output FROM tool_outputs WHERE session_id = $1 AND tool_call_id = $2';
  const [output] = await column(db, z.string(), sql, [sessionId, toolCallId]);
  return output;
}
