import { z } from 'zod';
import { PHASES } from '../domain/phases.ts';
import type { OpenSession } from '../domain/rendezvous.ts';
import { statusOf, waitOf } from '../domain/status.ts';
import { type Db, many } from './db.ts';
import { isoTime } from './results.ts';
import { STATUS_SQL, statusRow } from './status.ts';
import { TITLE_SQL, titleColumns, titled } from './titles.ts';

const openRow = z
  .object({
    session_id: z.string(),
    project_id: z.string().nullable(),
    phase: z.enum(PHASES),
    agent: z.string(),
    status: statusRow,
    ...titleColumns,
    alias: z.string().nullable(),
    parent_id: z.string().nullable(),
    updated_at: isoTime,
  })
  .transform(({ status, ...row }): OpenSession => {
    return { ...titled(row), state: statusOf(status).state, waits_for: waitOf(status) };
  });

const OPEN_SQL = `
  SELECT s.session_id, s.project_id, s.phase, c.agent, ${STATUS_SQL} AS status,
         ${TITLE_SQL}, c.parent_id,
         (SELECT min(alias) FROM session_aliases a WHERE a.session_id = s.session_id) AS alias,
         greatest(s.updated_at, c.updated_at,
           (SELECT coalesce(r.finished_at, r.started_at, r.created_at)
              FROM chat_runs r WHERE r.session_id = s.session_id ORDER BY r.seq DESC LIMIT 1)) AS updated_at
    FROM sessions s JOIN chat_sessions c USING (session_id)
   WHERE s.user_id = $1 AND c.closed_at IS NULL AND c.archived_at IS NULL AND c.depth = 0
     AND NOT coalesce(c.metadata @> '{"ephemeral": true}', false)`;

/** The newest `limit` open sessions of a user: not closed, not archived, no side chats. */
export function newestOpen(db: Db, userId: string, limit: number): Promise<OpenSession[]> {
  return many(db, openRow, `${OPEN_SQL} ORDER BY s.session_id DESC LIMIT $2`, [userId, limit]);
}

/** Those of the given sessions that are open and the user's. */
export function openAmong(db: Db, userId: string, sessionIds: readonly string[]): Promise<OpenSession[]> {
  return many(db, openRow, `${OPEN_SQL} AND s.session_id = ANY($2)`, [userId, sessionIds]);
}

const ownerRow = z.object({ session_id: z.string(), user_id: z.string() });
type OwnerRow = z.output<typeof ownerRow>;

/**
 * The sessions of some users whose rows, open runs or newest run changed within `ms`, by Postgres' clock, and those of
 * `known` that have been erased. In place of a child the session above all others: it shows what the child waits for.
 */
export function changedWithin(
  db: Db,
  userIds: readonly string[],
  ms: number,
  known: readonly OwnerRow[],
): Promise<OwnerRow[]> {
  return many(
    db,
    ownerRow,
    `SELECT DISTINCT CASE c.depth WHEN 0 THEN s.session_id ELSE coalesce(
              (SELECT above.session_id FROM sessions_above(s.session_id) above ORDER BY above.distance DESC LIMIT 1),
              s.session_id) END AS session_id, s.user_id
       FROM sessions s JOIN chat_sessions c USING (session_id),
            LATERAL (SELECT clock_timestamp() - $2 * interval '1 millisecond' AS since) cursor
      WHERE s.user_id = ANY($1)
        AND (s.updated_at > since OR c.updated_at > since
             OR c.closed_at IS NULL AND (
               EXISTS (SELECT FROM chat_runs r
                        WHERE r.session_id = s.session_id AND r.state IN ('queued', 'running', 'waiting')
                          AND r.updated_at > since)
               OR (SELECT r.updated_at FROM chat_runs r
                    WHERE r.session_id = s.session_id ORDER BY r.seq DESC LIMIT 1) > since))
     UNION ALL
     SELECT k.session_id, k.user_id FROM unnest($3::text[], $4::text[]) k (session_id, user_id)
      WHERE NOT EXISTS (SELECT FROM sessions s WHERE s.session_id = k.session_id)`,
    [userIds, ms, known.map(({ session_id }) => session_id), known.map(({ user_id }) => user_id)],
  );
}

/** The owners of those of the given sessions that exist. */
export function ownersOf(db: Db, sessionIds: readonly string[]): Promise<OwnerRow[]> {
  return many(db, ownerRow, 'SELECT session_id, user_id FROM sessions WHERE session_id = ANY($1)', [sessionIds]);
}
