import { z } from 'zod';
import { RUN_STATES } from '../domain/runs.ts';
import type { AnswerSnapshot } from '../domain/stream.ts';
import type { Json } from '../domain/text.ts';
import type { Cursor } from '../domain/stream-seen.ts';
import { call, type Db, maybeOne } from './db.ts';
import { json } from './results.ts';
import { retry } from './status.ts';

const answerRow = z.object({
  user_message_id: z.string(),
  message_id: z.string(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  run_state: z.enum(RUN_STATES),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  retry: retry.nullable(),
  progress: z.object({ tool_call_id: z.string(), data: json }).nullable(),
  started_at: z.number().nullable(),
  position: z.number().nullable(),
  parts: z
    .array(
      z.object({
        id: z.string(),
        index: z.number(),
        data: z.looseObject({ type: z.string() }),
        text: z.string().nullable(),
        text_start: z.number().nullable(),
      }),
    )
    .nullable(),
});

/** A snapshot of an answer and its run. Times are in epoch milliseconds. */
export type Answer = AnswerSnapshot & {
  user_message_id: string;
  retry: { attempt: number; reason: string; at: number } | null;
  /** Progress of the running tool. */
  progress: { tool_call_id: string; data: Json } | null;
  started_at: number | null;
  /** While it is queued: number of open runs ahead of it. */
  position: number | null;
};

/**
 * Reads a run's answer from a cursor on: its run, its metadata, its parts and their deltas, in one statement and so in one
 * snapshot. Undefined: the user has no such run.
 */
export async function readAnswer(
  db: Db,
  { userId, sessionId, runSeq }: { userId: string; sessionId: string; runSeq: number },
  cursor: Cursor,
): Promise<Answer | undefined> {
  const row = await maybeOne(
    db,
    answerRow,
    `
      SELECT r.message_id AS user_message_id, r.answer_id AS message_id, m.metadata, r.state AS run_state,
             r.error_code, r.error_message, r.retry, r.progress,
             (extract(epoch FROM r.started_at) * 1000)::bigint AS started_at,
             CASE WHEN r.state = 'queued' THEN (
               SELECT count(*) FROM chat_runs a
                WHERE a.session_id = r.session_id AND a.seq < r.seq AND a.state IN ('queued', 'running', 'waiting')
             ) END AS position,
             (SELECT json_agg(json_build_object(
                       'id', p.id, 'index', p.index, 'data', p.data, 'text', d.text, 'text_start', d.start)
                     ORDER BY p.index)
                FROM chat_parts p
                LEFT JOIN unnest($4::text[], $5::integer[]) AS seen(id, units) ON seen.id = p.id
                LEFT JOIN LATERAL (
                  SELECT string_agg(d.text, '' ORDER BY d.start) AS text, min(d.start) AS start
                    FROM part_deltas d
                   WHERE d.session_id = p.session_id AND d.part_id = p.id AND d.start >= coalesce(seen.units, 0)
                ) d ON true
               WHERE p.session_id = r.session_id AND p.message_id = r.answer_id AND p.index >= $3) AS parts
        FROM chat_runs r
        JOIN sessions s USING (session_id)
        LEFT JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.answer_id
       WHERE r.session_id = $1 AND r.seq = $2 AND s.user_id = $6`,
    [
      ...[sessionId, runSeq, cursor.index, cursor.parts.map((part) => part.id)],
      ...[cursor.parts.map((part) => part.units), userId],
    ],
  );
  return row && { ...row, session_id: sessionId, parts: row.parts ?? [] };
}

/** Number of the run in flight, else of the first queued one unless an error paused the queue; null: the session is idle. */
export function currentRun(db: Db, sessionId: string): Promise<number | null> {
  return call(db, z.number().nullable(), 'head_run', [sessionId]);
}
