import { z } from 'zod';
import { call, column, type Db, many, maybe } from './db.ts';

const place = z.object({
  user_id: z.string(),
  project_id: z.string().nullable(),
  workspace_root: z.string().nullable(),
});

/** Where a session's files are, as its rows have it. */
export type FilesPlace = z.infer<typeof place>;

const request = place.extend({
  /** Names this request. */
  n: z.string(),
  /** The snapshot to restore. */
  to: z.string(),
  /** The rewind that asked; null: an edit, a new answer or an un-rewind. */
  rewind: z.number().nullable(),
  /** Whether a snapshot for the un-rewind is to be taken first. */
  take: z.boolean(),
  /** The session has made its project itself. */
  made_project: z.boolean(),
});

/** Files to restore. */
export type RestoreRequest = z.infer<typeof request>;

const claimed = z.union([z.object({ busy: z.literal(true) }), request]);

/** Where files are to be restored; undefined: nothing is asked for. */
export async function placeToRestore(db: Db, sessionId: string): Promise<FilesPlace | undefined> {
  const sql = `SELECT user_id, project_id, workspace_root FROM chat_sessions JOIN sessions USING (session_id)
                WHERE session_id = $1 AND restore IS NOT NULL`;
  return (await many(db, place, sql, [sessionId]))[0];
}

/**
 * Claims what a session's rewind has asked for; `busy`: another worker does it, or a tool still runs; undefined: nothing.
 * @param root the workspace, relative to the folder of workspaces: tools of other sessions there count, too
 */
export function beginRestore(db: Db, sessionId: string, root: string): Promise<z.infer<typeof claimed> | undefined> {
  return call(db, maybe(claimed), 'begin_restore', [sessionId, root]);
}

/** Keeps the snapshot that was taken before a rewind's files were restored. */
export async function noteRewound(db: Db, sessionId: string, rewind: number, snapshot: string): Promise<void> {
  await call(db, z.unknown(), 'note_rewound', [sessionId, rewind, snapshot]);
}

/** Whether a request has been neither replaced nor undone. */
export async function isStillAsked(db: Db, sessionId: string, n: string): Promise<boolean> {
  const sql = `SELECT true FROM chat_sessions WHERE session_id = $1 AND restore ->> 'n' = $2`;
  return (await column(db, z.boolean(), sql, [sessionId, n])).length > 0;
}

/**
 * Ends a request that is done or not to be carried out, or gives its claim back.
 * @returns false: it was replaced or undone meanwhile
 */
export function endRestore(db: Db, sessionId: string, n: string, isOver: boolean): Promise<boolean> {
  return call(db, z.boolean(), 'end_restore', [sessionId, n, isOver]);
}

/**
 * Ends a request that has failed; its snapshot is not asked for again.
 * @returns as `endRestore`
 */
export function giveUpRestore(db: Db, sessionId: string, n: string): Promise<boolean> {
  return call(db, z.boolean(), 'give_up_restore', [sessionId, n]);
}

/** Whether a message has no snapshot yet. */
export function lacksSnapshot(db: Db, sessionId: string, messageId: string): Promise<boolean> {
  return call(db, z.boolean(), 'lacks_snapshot', [sessionId, messageId]);
}

/** Keeps the snapshot that was taken when a message's turn began. */
export async function noteSnapshot(db: Db, sessionId: string, messageId: string, snapshot: string): Promise<void> {
  await call(db, z.unknown(), 'note_snapshot', [sessionId, messageId, snapshot]);
}
