import { z } from 'zod';
import { RUN_STATES, type SessionStatus, WAITS } from '../domain/runs.ts';
import { type StatusRow, statusOf } from '../domain/status.ts';
import { sessionStatus, sessionView } from '../wire/responses.ts';
import { type Db, jsonb, many, maybe } from './db.ts';
import { epochMs } from './results.ts';

/** Selects `statusRow`; in the statement `c` is the session's row of chat_sessions. */
export const STATUS_SQL = `
  json_build_object(
    'paused', c.paused_at IS NOT NULL,
    'stuck', c.stuck_at IS NOT NULL,
    'run', (
      SELECT json_build_object(
               'state', r.state, 'message_id', r.message_id, 'retry', r.retry, 'waits_for', r.waiting -> 'for',
               'compacting', r.compaction @> '{"state": "running"}' IS TRUE OR r.kind <> 'turn' AND r.state = 'running',
               'started_at', (extract(epoch FROM coalesce(r.started_at, r.created_at)) * 1000)::bigint)
        FROM chat_runs r
       WHERE r.session_id = c.session_id AND r.state IN ('queued', 'running', 'waiting')
       ORDER BY r.state = 'queued', r.seq
       LIMIT 1),
    'error_message', CASE WHEN c.paused_at IS NOT NULL THEN (
      SELECT r.error_message FROM chat_runs r
       WHERE r.session_id = c.session_id AND r.state = 'error' ORDER BY r.seq DESC LIMIT 1) END,
    'questions', CASE WHEN has_open_tasks(c.session_id) THEN waits_below(c.session_id) END)`;

/** Selects the message that the newest rewind went to, as `STATUS_SQL`. */
export const GONE_BACK_TO_SQL = "c.rewinds #>> '{-1,message_id}'";

export const retry = z.object({ attempt: z.number(), reason: z.string(), at: epochMs });

/** The row that STATUS_SQL selects. */
export const statusRow: z.ZodType<StatusRow> = z.object({
  paused: z.boolean(),
  stuck: z.boolean(),
  run: z
    .object({
      state: z.enum(['queued', 'running', 'waiting']),
      message_id: z.string(),
      waits_for: z.enum(WAITS).nullable(),
      started_at: epochMs,
      retry: retry.nullable(),
      compacting: z.boolean(),
    })
    .nullable(),
  error_message: z.string().nullable(),
  questions: sessionStatus.shape.questions.unwrap().nullable(),
});

/** The status of that row. */
export const statusOfRow = statusRow.transform(statusOf);

/** A session's status; undefined: there is no such session. */
export async function readStatus(db: Db, sessionId: string): Promise<SessionStatus | undefined> {
  const [status] = await readStatuses(db, [sessionId]);
  return status?.();
}

/**
 * Reads the status of several sessions in one statement.
 * @returns for each a function that parses its status, undefined if there is no such session; it throws an Error if the rows
 * are not as expected
 */
export async function readStatuses(
  db: Db,
  sessionIds: readonly string[],
): Promise<(() => SessionStatus | undefined)[]> {
  const sql = `
    SELECT (SELECT ${STATUS_SQL} FROM chat_sessions c WHERE c.session_id = asked.id) AS status
      FROM unnest($1::text[]) WITH ORDINALITY AS asked(id, place) ORDER BY asked.place`;
  const rows = await many(db, z.object({ status: z.unknown() }), sql, [sessionIds]);
  return rows.map(
    ({ status }) =>
      () =>
        maybe(statusOfRow).parse(status),
  );
}

const turnRow = z.object({
  seq: z.number(),
  message_id: z.string(),
  state: z.enum(RUN_STATES),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  /** The tool call that it waits for, and whether for an approval or for the output of a page. */
  waiting: z.object({ tool_call_id: z.string(), for: z.enum(WAITS) }).nullable(),
});

/** A run as followers of a session see it. */
export type TurnRow = z.infer<typeof turnRow>;

const followedRow = z.object({
  session: z.object({
    ...sessionView.shape.session.pick({ phase: true, project_id: true, pending_tool: true }).shape,
    gone_back_to: sessionView.shape.gone_back_to.unwrap(),
  }),
  status: statusOfRow,
  /** Marks of the scopes of state that the session sees; each changes with any key of its scope. */
  marks: z.object({ session: z.string(), user: z.string(), app: z.string() }),
  /** Changes with any rule of the session or its project, or of those above. */
  rules_mark: z.string(),
  /** When an event of the session last changed state, in epoch seconds. */
  state_at: z.number().transform((micros) => micros / 1_000_000),
  turns: z
    .array(turnRow)
    .nullable()
    .transform((turns) => turns ?? []),
});

/** State, status and turns of a session as its followers receive them. */
export type Followed = z.output<typeof followedRow>;

/** The state of a session as its followers receive it. */
export type FollowedSession = Followed['session'];

/** Which session a user follows, with its turns from number `fromSeq` on; 0: from the first open one on, or only the newest. */
export interface FollowedRequest {
  userId: string;
  sessionId: string;
  fromSeq: number;
}

/**
 * Reads several sessions in one statement and so in one snapshot.
 * @returns for each request a function that parses its session, undefined if the user has no such session; it throws an
 * Error if the rows are not as expected
 */
export async function readFollowed(
  db: Db,
  requests: readonly FollowedRequest[],
): Promise<(() => Followed | undefined)[]> {
  const asked = requests.map(({ userId, sessionId, fromSeq }, place) => {
    return { place, session_id: sessionId, user_id: userId, from_seq: fromSeq };
  });
  const rows = await many(db, z.looseObject({ place: z.number() }), FOLLOWED_SQL, [jsonb(asked)]);
  const found = new Map(rows.map(({ place, ...row }) => [place, row]));
  return requests.map((_, place) => () => (found.has(place) ? followedRow.parse(found.get(place)) : undefined));
}

// LIMIT, so that each session is looked up by its key, whatever the statistics.
const FOLLOWED_SQL = `
  SELECT q.place, found.*
    FROM jsonb_to_recordset($1) AS q(place integer, session_id text, user_id text, from_seq integer)
   CROSS JOIN LATERAL (
     SELECT to_jsonb(s) || jsonb_build_object('gone_back_to', ${GONE_BACK_TO_SQL}) AS session,
            ${STATUS_SQL} AS status, state_time(c.state_updated_at) AS state_at,
            (SELECT jsonb_object_agg(scope, scope_mark(c.app, scope, state_owner(scope, s.session_id, s.user_id)))
               FROM unnest(ARRAY['session', 'user', 'app']) AS scope) AS marks,
            md5(concat(rules_in_force(c.session_id),
                       CASE WHEN c.depth > 0 THEN rules_above(c.session_id) END)) AS rules_mark,
            (SELECT json_agg(json_build_object(
                      'seq', r.seq, 'message_id', r.message_id, 'state', r.state,
                      'error_code', r.error_code, 'error_message', r.error_message, 'waiting', r.waiting) ORDER BY r.seq)
               FROM chat_runs r
              WHERE r.session_id = q.session_id
                AND r.seq >= CASE WHEN q.from_seq > 0 THEN q.from_seq ELSE coalesce(
                      (SELECT min(seq) FROM chat_runs
                        WHERE session_id = q.session_id AND state IN ('queued', 'running', 'waiting')),
                      (SELECT max(seq) FROM chat_runs WHERE session_id = q.session_id), 0) END) AS turns
       FROM chat_sessions c JOIN sessions s USING (session_id)
      WHERE c.session_id = q.session_id AND s.user_id = q.user_id
      LIMIT 1) AS found`;
