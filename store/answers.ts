import { z } from 'zod';
import { RUN_STATES, type RunState } from '../domain/runs.ts';
import type { AnswerSnapshot } from '../domain/stream.ts';
import type { Json } from '../domain/text.ts';
import type { Cursor } from '../domain/stream-seen.ts';
import { type Db, maybeOne } from './db.ts';
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

/** A snapshot of an answer and its run. Times in epoch milliseconds. */
export type Answer = AnswerSnapshot & {
  user_message_id: string;
  retry: { attempt: number; reason: string; at: number } | null;
  /** How far the tool at work is. */
  progress: { tool_call_id: string; data: Json } | null;
  started_at: number | null;
  /** Open runs ahead of it, while it is queued. */
  position: number | null;
};

/**
 * What the rows say of a run's answer from a cursor on: its run, its metadata, its parts with the text that has not
 * been settled. One statement, so that parts and deltas are of one moment. Undefined: the user has no such run.
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

const runRef = z.object({ seq: z.number(), state: z.enum(RUN_STATES) });

/** The running run, else the first queued one unless an error paused the queue; undefined: none is in flight. */
export function currentRun(db: Db, sessionId: string): Promise<{ seq: number; state: RunState } | undefined> {
  return maybeOne(
    db,
    runRef,
    `SELECT r.seq, r.state
       FROM chat_runs r JOIN chat_sessions c USING (session_id)
      WHERE r.session_id = $1
        AND (r.state IN ('running', 'waiting') OR (r.state = 'queued' AND c.paused_at IS NULL))
      ORDER BY r.state = 'queued', r.seq
      LIMIT 1`,
    [sessionId],
  );
}
