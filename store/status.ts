import { z } from 'zod';
import { RUN_STATES, type SessionStatus } from '../domain/runs.ts';
import { type StatusRow, statusOf } from '../domain/status.ts';
import { sessionView } from '../wire/responses.ts';
import { column, type Db, many, maybeOne } from './db.ts';
import { time } from './results.ts';

/** Selects the row of `sessionStatus`; in the statement `c` is the session's row of chat_sessions. */
export const STATUS_SQL = `
  json_build_object(
    'paused', c.paused_at IS NOT NULL,
    'stuck', c.stuck_at IS NOT NULL,
    'run', (
      SELECT json_build_object(
               'state', r.state, 'message_id', r.message_id, 'retry', r.retry,
               'started_at', (extract(epoch FROM coalesce(r.started_at, r.created_at)) * 1000)::bigint)
        FROM chat_runs r
       WHERE r.session_id = c.session_id AND r.state IN ('queued', 'running', 'waiting')
       ORDER BY r.state = 'queued', r.seq
       LIMIT 1),
    'error_message', CASE WHEN c.paused_at IS NOT NULL THEN (
      SELECT r.error_message FROM chat_runs r
       WHERE r.session_id = c.session_id AND r.state = 'error' ORDER BY r.seq DESC LIMIT 1) END)`;

export const retry = z.object({ attempt: z.number(), reason: z.string(), at: time });

const statusRow: z.ZodType<StatusRow> = z.object({
  paused: z.boolean(),
  stuck: z.boolean(),
  run: z
    .object({
      state: z.enum(['queued', 'running', 'waiting']),
      message_id: z.string(),
      started_at: time,
      retry: retry.nullable(),
    })
    .nullable(),
  error_message: z.string().nullable(),
});

/** The status that STATUS_SQL selects. */
export const sessionStatus = statusRow.transform(statusOf);

/** A session's status; undefined: there is no such session. */
export async function readStatus(db: Db, sessionId: string): Promise<SessionStatus | undefined> {
  const sql = `SELECT ${STATUS_SQL} FROM chat_sessions c WHERE c.session_id = $1`;
  const [status] = await column(db, sessionStatus, sql, [sessionId]);
  return status;
}

const stateRow = z.object({
  session: sessionView.shape.session.pick({ phase: true, project_id: true, pending_tool: true }),
  status: sessionStatus,
});

/** The state of a session as its followers receive it. */
export type SessionState = z.output<typeof stateRow>['session'];

/** State and status of a user's session, in one snapshot; undefined: the user has no such session. */
export function readSessionState(
  db: Db,
  userId: string,
  sessionId: string,
): Promise<z.output<typeof stateRow> | undefined> {
  return maybeOne(
    db,
    stateRow,
    `SELECT to_jsonb(s) AS session, ${STATUS_SQL} AS status
       FROM chat_sessions c JOIN sessions s USING (session_id)
      WHERE c.session_id = $1 AND s.user_id = $2`,
    [sessionId, userId],
  );
}

const turnRow = z.object({
  seq: z.number(),
  message_id: z.string(),
  state: z.enum(RUN_STATES),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
});

/** A run as followers of a session see it. */
export type TurnRow = z.infer<typeof turnRow>;

/** The runs from number `fromSeq` on, oldest first; with 0 from the first open run on, or only the newest run. */
export function readTurns(db: Db, sessionId: string, fromSeq: number): Promise<TurnRow[]> {
  return many(
    db,
    turnRow,
    `SELECT seq, message_id, state, error_code, error_message
       FROM chat_runs
      WHERE session_id = $1
        AND seq >= CASE WHEN $2 > 0 THEN $2 ELSE coalesce(
              (SELECT min(seq) FROM chat_runs WHERE session_id = $1 AND state IN ('queued', 'running', 'waiting')),
              (SELECT max(seq) FROM chat_runs WHERE session_id = $1), 0) END
      ORDER BY seq`,
    [sessionId, fromSeq],
  );
}
