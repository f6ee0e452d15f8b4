import { z } from 'zod';
import { call, column, type Db, maybe } from './db.ts';

const erased = z.object({
  sessions: z.array(z.string()),
  runs: z.array(z.object({ session_id: z.string(), run_seq: z.number() })),
});

/** The sessions that were erased, and their runs that were running. */
export type Erased = z.infer<typeof erased>;

/**
 * Removes every row of a session and its descendants, and queues the removal of its files.
 * @param options.home the user's folder, relative to the folder of workspaces
 * @param options.wholeUser all sessions of the user are being erased: also remove folders that others of them use
 * @returns undefined: the user has no such session
 */
export function eraseSession(
  db: Db,
  { sessionId, userId, home, wholeUser }: { sessionId: string; userId: string; home: string; wholeUser: boolean },
): Promise<Erased | undefined> {
  return call(db, maybe(erased), 'erase_session', [sessionId, userId, home, wholeUser]);
}

/** Up to 100 of a user's sessions. */
export function someSessionsOf(db: Db, userId: string): Promise<string[]> {
  return column(db, z.string(), 'SELECT session_id FROM sessions WHERE user_id = $1 LIMIT 100', [userId]);
}

/** Removes a user's projects and `user:` state, and queues the removal of the projects' files. */
export async function eraseUserRest(db: Db, userId: string, home: string): Promise<void> {
  await call(db, z.unknown(), 'erase_user_rest', [userId, home]);
}

/**
 * If a session has been erased, queues the removal of folders in which something of it has ended since, unless others use them.
 * @param options.folders of the user, relative to the folder of workspaces, as `home` is
 */
export async function queueLeftFiles(
  db: Db,
  { sessionId, userId, home, folders }: { sessionId: string; userId: string; home: string; folders: readonly string[] },
): Promise<void> {
  const sql = 'SELECT queue_left_files($1, $2, $3, folder) FROM unnest($4::text[]) AS folder';
  await db.query(sql, [sessionId, userId, home, folders]);
}

const erasure = z.object({
  id: z.number(),
  workflow_id: z.string().nullable(),
  folder: z.string().nullable(),
  passes: z.number(),
});

/** Work of an erasure outside of Postgres. `folder` is absolute or relative to the folder of workspaces. */
export type ErasureTask = z.infer<typeof erasure>;

/** Claims due erasures for a minute. */
export function claimErasures(db: Db, limit: number): Promise<ErasureTask[]> {
  return call(db, z.array(erasure), 'claim_erasures', [limit]);
}

/** Removes finished erasures from the queue. */
export async function finishErasures(db: Db, ids: readonly number[]): Promise<void> {
  await db.query('DELETE FROM erasures WHERE id = ANY($1)', [ids]);
}
