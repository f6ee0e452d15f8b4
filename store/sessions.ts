import { z } from 'zod';
import type { LoadArgs, LoadedSession } from '../domain/activities.ts';
import type { StopMeant } from '../domain/command-table.ts';
import { PerdureError } from '../domain/errors.ts';
import { PHASES } from '../domain/phases.ts';
import type { sessionFilter } from '../wire/requests.ts';
import { sessionView } from '../wire/responses.ts';
import { call, column, type Db, many, maybe, maybeOne } from './db.ts';
import { queuedRun, sessionMark, epochMs, timestamp, toolCallRow } from './results.ts';
import { GONE_BACK_TO_SQL, statusOfRow, STATUS_SQL } from './status.ts';
import { TITLE_SQL, titleColumns, titled } from './titles.ts';

/** The settings of a new session. */
export interface NewSession {
  sessionId: string;
  userId: string;
  agent: string;
  /** Absolute path; null: a folder of its own. */
  workspaceRoot: string | null;
  model: string | null;
  metadata: Record<string, unknown>;
  /** Nobody can be asked. */
  headless?: boolean;
}

/**
 * Opens a session, in a project of the user's or a new one if one is given.
 * @throws {PerdureError} `ProjectNotFound`: the project belongs to another user
 */
export async function openSession(db: Db, session: NewSession, projectId: string | null): Promise<void> {
  const opened = await call(db, z.boolean(), 'open_session', [
    ...argumentsOf(session),
    projectId,
    session.headless ?? false,
  ]);
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
  /** The model used last, or else chosen at the opening; null: none yet. */
  model: z.string().nullable(),
});

/** What starting a session's workflow needs, besides its user. */
export type OwnedSession = z.infer<typeof ownedSession>;

/** Whether a session exists and is not closed. */
export async function isOpen(db: Db, sessionId: string): Promise<boolean> {
  const sql = 'SELECT closed_at IS NULL FROM chat_sessions WHERE session_id = $1';
  const [open = false] = await column(db, z.boolean(), sql, [sessionId]);
  return open;
}

/** Gives a user's session a title; null: the beginning of its first message again. False: there is no such session. */
export function renameSession(db: Db, userId: string, sessionId: string, title: string | null): Promise<boolean> {
  return call(db, z.boolean(), 'rename_session', [sessionId, userId, title]);
}

/** The id of a session, given the numbers of the parameters for its user and for its id or an alias; null: there is no such alias. */
const idSql = (user: number, id: number) =>
  `CASE WHEN $${id} LIKE 'ses\\_%' THEN $${id}
        ELSE (SELECT session_id FROM session_aliases WHERE user_id = $${user} AND app = 'perdure' AND alias = $${id}) END`;

const OWNED = 's.session_id, s.phase, s.project_id, c.agent, c.model';
const OF_ID = `
       FROM sessions s JOIN chat_sessions c USING (session_id)
      WHERE s.user_id = $1
        AND s.session_id = ${idSql(1, 2)}`;

/** A user's session by its id or an alias. */
export async function findSession(db: Db, userId: string, id: string): Promise<OwnedSession | undefined> {
  // Postgres refuses such text.
  if (id.includes('\0')) return undefined;
  return maybeOne(db, ownedSession, `SELECT ${OWNED} ${OF_ID}`, [userId, id]);
}

const stopMeant: z.ZodType<StopMeant> = z.object({
  run_seq: z.number().nullable(),
  in_flight: z.boolean(),
  event_seq: z.number(),
});

/**
 * The same for a command that stops a run: with what it means now.
 * @param messageId of the user message whose run is meant; null: the run in flight
 */
export async function findSessionToStop(
  db: Db,
  userId: string,
  id: string,
  messageId: string | null,
): Promise<(OwnedSession & { meant: StopMeant }) | undefined> {
  if (id.includes('\0')) return undefined;
  const sql = `SELECT ${OWNED}, stop_meant(s.session_id, $3) AS meant ${OF_ID}`;
  return maybeOne(db, ownedSession.extend({ meant: stopMeant }), sql, [userId, id, messageId]);
}

/** A session's user; undefined: there is no such session. */
export async function readOwner(db: Db, sessionId: string): Promise<string | undefined> {
  const [user] = await column(db, z.string(), 'SELECT user_id FROM sessions WHERE session_id = $1', [sessionId]);
  return user;
}

const { session, chat, gone_back_to } = sessionView.shape;
const sessionColumns = z.object({
  session: session.extend({ updated_at: timestamp }),
  chat: chat.extend({
    created_at: timestamp,
    updated_at: timestamp,
    closed_at: timestamp.nullable(),
    archived_at: timestamp.nullable(),
  }),
  status: statusOfRow,
  ...titleColumns,
});
const sessionRow = sessionColumns.transform(titled);

/** What `window_in_use` returns; `limit` is what the client adds. */
const window = z
  .object({
    model: z.string().nullable(),
    tokens: z.number().nullable(),
    limit: z.number().nullable().exactOptional(),
  })
  .nullable();
const oneSession = sessionColumns.extend({ window, gone_back_to: gone_back_to.unwrap() }).transform(titled);

/**
 * A session: its state, its chat's settings and totals, its status, its title; if it is read alone, its window and the message
 * that was gone back to. Times in ISO 8601.
 */
export type SessionView = z.output<typeof sessionRow> &
  Partial<Pick<z.output<typeof oneSession>, 'window' | 'gone_back_to'>>;

const COLUMNS = `to_jsonb(s) AS session, to_jsonb(c) AS chat, ${STATUS_SQL} AS status, ${TITLE_SQL}`;
const OF_USER = `
    FROM sessions s JOIN chat_sessions c USING (session_id)
   WHERE s.user_id = $1`;

/** The sessions of all users, or of one, newest first: also side chats, children, and those that are archived. */
export function listAllSessions(
  db: Db,
  { user = null, after = null, limit }: { user?: string | null; after?: string | null; limit: number },
): Promise<SessionView[]> {
  return many(
    db,
    sessionRow,
    `SELECT ${COLUMNS}
       FROM sessions s JOIN chat_sessions c USING (session_id)
      WHERE ($1::text IS NULL OR s.user_id = $1)
        AND ($2::text IS NULL OR s.session_id < $2)
      ORDER BY s.session_id DESC
      LIMIT $3`,
    [user, after, limit],
  );
}

/** A user's session, by its id. */
export function readSession(db: Db, userId: string, sessionId: string): Promise<SessionView | undefined> {
  const alone = `window_in_use(c) AS window, ${GONE_BACK_TO_SQL} AS gone_back_to`;
  const sql = `SELECT ${COLUMNS}, ${alone} ${OF_USER} AND s.session_id = $2`;
  return maybeOne(db, oneSession, sql, [userId, sessionId]);
}

/** A user's sessions, newest first; side chats are left out, and children unless their parent is given. */
export function listSessions(db: Db, userId: string, filter: z.output<typeof sessionFilter>): Promise<SessionView[]> {
  const { project = null, agent = null, parent = null, ids, archived, after = null, limit } = filter;
  // Two texts, because they need two plans: a few rows by their keys, or all of a user's in order.
  const ofIds = ids === undefined ? '' : 'AND s.session_id = ANY ($8)';
  return many(
    db,
    sessionRow,
    `SELECT ${COLUMNS} ${OF_USER}
        AND ($2::text IS NULL OR s.project_id = $2)
        AND ($3::text IS NULL OR c.agent = $3)
        AND CASE WHEN $4::text IS NULL THEN c.depth = 0 ELSE c.parent_id = ${idSql(1, 4)} END
        AND ($5 OR c.archived_at IS NULL)
        AND ($6::text IS NULL OR s.session_id < $6)
        ${ofIds}
        AND NOT coalesce(c.metadata @> '{"ephemeral": true}', false)
      ORDER BY s.session_id DESC
      LIMIT $7`,
    [userId, project, agent, parent, archived, after, limit, ...(ids === undefined ? [] : [ids])],
  );
}

const loadedSession = z.object({
  ...sessionMark.shape,
  epoch: z.number(),
  user_id: z.string(),
  agent: z.string(),
  paused: z.boolean(),
  is_child: z.boolean(),
  /** Run id of the execution whose load was the newest. */
  newest: z.string(),
  runs: z.array(
    z.object({
      ...queuedRun.shape,
      state: z.enum(['queued', 'running', 'waiting']),
      step: z.number(),
      abort: z.boolean(),
      started_at: epochMs.nullable(),
      wait_ms: z.number().exactOptional(),
      open_calls: z.array(toolCallRow),
    }),
  ),
});

/**
 * Everything a workflow needs at its start, under a new epoch; undefined: no such session. A load that is older than the
 * newest one leaves the epoch as it is: its workflow has been replaced, or has been given another worker's answer.
 * @param execution the run id of the workflow
 * @param isCurrent whether that run is the workflow's newest one; asked if it is not known to have replaced the one that loaded last
 */
export async function loadSession(
  db: Db,
  { session_id, load, asked_at, continues }: LoadArgs,
  execution: string,
  isCurrent: () => Promise<boolean>,
): Promise<Omit<LoadedSession, 'settings'> | undefined> {
  let replaces = continues ?? '';
  for (;;) {
    const args = [session_id, execution, load, asked_at, replaces];
    const found = await call(db, maybe(loadedSession), 'load_session', args);
    if (found === undefined) return undefined;
    const { newest, ...loaded } = found;
    // Asked after the row was read: whoever has loaded before is not newer. Whoever loads meanwhile may be.
    if (newest === execution || !(await isCurrent())) return loaded;
    replaces = newest;
  }
}
