import { z } from 'zod';
import { pendingTool } from '../wire/responses.ts';
import { type ErrorCode, isErrorCode, PerdureError } from '../domain/errors.ts';
import { PHASES } from '../domain/phases.ts';
import { call, type Db, many, maybeOne } from './db.ts';
import { STATUS_SQL, statusRow } from './status.ts';

/** What a session is opened with. */
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
 * Opens a session, with a project of the user's or a new one where one is given.
 * @throws {PerdureError} `ProjectNotFound`: the project is somebody else's
 */
export async function openSession(db: Db, session: NewSession, projectId: string | null): Promise<void> {
  const { sessionId, userId, agent, workspaceRoot, model, metadata } = session;
  try {
    await call(db, z.object({ ok: z.literal(true) }), 'open_session', [
      sessionId,
      userId,
      agent,
      workspaceRoot,
      model,
      JSON.stringify(metadata),
      projectId,
    ]);
  } catch (error) {
    throw refusedCode(error) ? new PerdureError(refusedCode(error) as ErrorCode, 'there is no such project') : error;
  }
}

/** SQLSTATE with which open_session refuses; the detail is the error's code. */
const REFUSED = 'PD002';

function refusedCode(error: unknown): ErrorCode | undefined {
  const { code, detail } = error as { code?: string; detail?: string };
  return code === REFUSED && detail !== undefined && isErrorCode(detail) ? detail : undefined;
}

/** The session behind an alias of a user, opened as `session` says where there is none. Answers its id. */
export function openAlias(db: Db, alias: string, session: NewSession): Promise<string> {
  const { sessionId, userId, agent, workspaceRoot, model, metadata } = session;
  return call(db, z.string(), 'open_alias', [
    alias,
    sessionId,
    userId,
    agent,
    workspaceRoot,
    model,
    JSON.stringify(metadata),
  ]);
}

const ownedSession = z.object({
  session_id: z.string(),
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
  agent: z.string(),
});

/** What has to be known of a session before it is sent a command. */
export type OwnedSession = z.infer<typeof ownedSession>;

/** A user's session by its id or by an alias; undefined where it is not there or not the user's. */
export async function findSession(db: Db, userId: string, id: string): Promise<OwnedSession | undefined> {
  // Postgres would refuse the text; no session is called so.
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

const timestamp = z.date().transform((date) => date.toISOString());

const sessionRow = z.object({
  session_id: z.string(),
  user_id: z.string(),
  project_id: z.string().nullable(),
  phase: z.enum(PHASES),
  pending_tool: pendingTool.nullable(),
  cancel_token: z.string().nullable(),
  updated_at: timestamp,
  agent: z.string(),
  workspace_root: z.string().nullable(),
  model: z.string().nullable(),
  parent_id: z.string().nullable(),
  parent_message_id: z.string().nullable(),
  permissions: z.array(z.unknown()),
  metadata: z.record(z.string(), z.unknown()),
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  reasoning_tokens: z.number(),
  cache_read: z.number(),
  cache_write: z.number(),
  total_tokens: z.number(),
  cost_usd: z.number().nullable(),
  created_at: timestamp,
  chat_updated_at: timestamp,
  closed_at: timestamp.nullable(),
  archived_at: timestamp.nullable(),
  status: statusRow,
});

/** A session's state, its conversation's frame, and what its status is made of. Times in ISO 8601. */
export type SessionRow = z.output<typeof sessionRow>;

const COLUMNS = `
  s.session_id, s.user_id, s.project_id, s.phase, s.pending_tool, s.cancel_token, s.updated_at,
  c.agent, c.workspace_root, c.model, c.parent_id, c.parent_message_id, c.permissions, c.metadata,
  c.prompt_tokens, c.completion_tokens, c.reasoning_tokens, c.cache_read, c.cache_write, c.total_tokens,
  c.cost_usd::float8 AS cost_usd, c.created_at, c.updated_at AS chat_updated_at, c.closed_at, c.archived_at,
  ${STATUS_SQL} AS status`;

/** A session of a user's, by its own id. */
export function readSession(db: Db, userId: string, sessionId: string): Promise<SessionRow | undefined> {
  return maybeOne(
    db,
    sessionRow,
    `SELECT ${COLUMNS} FROM sessions s JOIN chat_sessions c USING (session_id)
      WHERE s.session_id = $2 AND s.user_id = $1`,
    [userId, sessionId],
  );
}

/** Which sessions are listed. */
export interface SessionFilter {
  project?: string | undefined;
  agent?: string | undefined;
  parent?: string | undefined;
  /** Archived ones as well. */
  archived?: boolean | undefined;
  /** Only those made before this one. */
  after?: string | undefined;
  limit: number;
}

/** A user's sessions, newest first; side chats are left out. */
export function listSessions(db: Db, userId: string, filter: SessionFilter): Promise<SessionRow[]> {
  const { project = null, agent = null, parent = null, archived = false, after = null, limit } = filter;
  return many(
    db,
    sessionRow,
    `SELECT ${COLUMNS} FROM sessions s JOIN chat_sessions c USING (session_id)
      WHERE s.user_id = $1
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
