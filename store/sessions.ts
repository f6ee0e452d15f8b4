import { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import { PHASES } from '../domain/phases.ts';
import type { sessionFilter } from '../wire/requests.ts';
import { sessionView } from '../wire/responses.ts';
import { call, type Db, many, maybeOne } from './db.ts';
import { sessionStatus, STATUS_SQL } from './status.ts';

/** The settings of a new session. */
export interface NewSession {
  sessionId: string;
  userId: string;
  agent: string;
  /** Absolute path; null: a folder of its own. */
  workspaceRoot: string | null;
  model: string | null;
  metadata: Record<string, unknown>;
}

/**
 * Opens a session, in a project of the user's or a new one if one is given.
 * @throws {PerdureError} `ProjectNotFound`: the project belongs to another user
 */
export async function openSession(db: Db, session: NewSession, projectId: string | null): Promise<void> {
  const opened = await call(db, z.boolean(), 'open_session', [...argumentsOf(session), projectId]);
  if (!opened) throw new PerdureError('ProjectNotFound', 'there is no such project');
}

/** Returns the id of the session with an alias; if there is none, it is opened as `session`. */
export function openAlias(db: Db, alias: string, session: NewSession): Promise<string> {
  return call(db, z.string(), 'open_alias', [alias, ...argumentsOf(session)]);
}

function argumentsOf({ sessionId, userId, agent, workspaceRoot, model, metadata }: NewSession): unknown[] {
  return [sessionId, userId, agent, workspaceRoot, model, JSON.stringify(metadata)];
}

const ownedSession = z.object({
  session_id: z.string(),
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
  agent: z.string(),
});

/** What starting a session's workflow needs, besides its user. */
export type OwnedSession = z.infer<typeof ownedSession>;

/** A user's session by its id or an alias. */
export async function findSession(db: Db, userId: string, id: string): Promise<OwnedSession | undefined> {
  // Postgres refuses such text.
  if (id.includes('\0')) return undefined;
  return maybeOne(
    db,
    ownedSession,
    `SELECT s.session_id, s.phase, s.project_id, c.agent
       FROM sessions s JOIN chat_sessions c USING (session_id)
      WHERE s.user_id = $1
        AND s.session_id = CASE WHEN $2 LIKE 'ses\\_%' THEN $2
                                ELSE (SELECT session_id FROM session_aliases WHERE user_id = $1 AND alias = $2) END`,
    [userId, id],
  );
}

/** A timestamp as to_jsonb() writes it, to ISO 8601 in UTC. */
const timestamp = z.string().transform((text) => new Date(text).toISOString());

const { session, chat } = sessionView.shape;
const sessionRow = z.object({
  session: session.extend({ updated_at: timestamp }),
  chat: chat.extend({
    created_at: timestamp,
    updated_at: timestamp,
    closed_at: timestamp.nullable(),
    archived_at: timestamp.nullable(),
  }),
  status: sessionStatus,
});

/** A session: its state, its chat's settings and totals, its status. Times in ISO 8601. */
export type SessionView = z.output<typeof sessionRow>;

const SELECT_OF_USER = `
  SELECT to_jsonb(s) AS session, to_jsonb(c) AS chat, ${STATUS_SQL} AS status
    FROM sessions s JOIN chat_sessions c USING (session_id)
   WHERE s.user_id = $1`;

/** A user's session, by its id. */
export function readSession(db: Db, userId: string, sessionId: string): Promise<SessionView | undefined> {
  return maybeOne(db, sessionRow, `${SELECT_OF_USER} AND s.session_id = $2`, [userId, sessionId]);
}

/** A user's sessions, newest first; side chats are left out. */
export function listSessions(db: Db, userId: string, filter: z.output<typeof sessionFilter>): Promise<SessionView[]> {
  const { project = null, agent = null, parent = null, archived, after = null, limit } = filter;
  return many(
    db,
    sessionRow,
    `${SELECT_OF_USER}
        AND ($2::text IS NULL OR s.project_id = $2)
        AND ($3::text IS NULL OR c.agent = $3)
        AND ($4::text IS NULL OR c.parent_id = $4)
        AND ($5 OR c.archived_at IS NULL)
        AND ($6::text IS NULL OR s.session_id < $6)
        AND NOT coalesce(c.metadata @> '{"ephemeral": true}', false)
      ORDER BY s.session_id DESC
      LIMIT $7`,
    [userId, project, agent, parent, archived, after, limit],
  );
}
