import { z } from 'zod';
import { call, type Db, many } from './db.ts';

/** Notes why a session's workflow cannot go on, or with null that it does again. False: it was known. */
export function noteStuck(db: Db, sessionId: string, cause: string | null): Promise<boolean> {
  return call(db, z.boolean(), 'note_stuck', [sessionId, cause]);
}

/** The sessions that are noted as stuck. */
export async function stuckSessions(db: Db): Promise<string[]> {
  const rows = await many(
    db,
    z.object({ session_id: z.string() }),
    'SELECT session_id FROM chat_sessions WHERE stuck_at IS NOT NULL',
  );
  return rows.map((row) => row.session_id);
}
