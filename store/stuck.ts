import { z } from 'zod';
import { call, column, type Db } from './db.ts';

/** Records why a session's workflow cannot continue, or with null that it does again. False: nothing changed. */
export function noteStuck(db: Db, sessionId: string, cause: string | null): Promise<boolean> {
  return call(db, z.boolean(), 'note_stuck', [sessionId, cause]);
}

const KNOWN = `
  SELECT session_id FROM chat_sessions WHERE stuck_at IS NOT NULL AND session_id = ANY ($1)
  UNION ALL
  (SELECT session_id FROM chat_sessions WHERE stuck_at IS NOT NULL AND session_id <> ALL ($1)
    ORDER BY session_id LIMIT $2)`;

/** The sessions recorded as stuck: those of `sessions`, and up to `limit` others. */
export function stuckSessions(db: Db, sessions: readonly string[], limit: number): Promise<string[]> {
  return column(db, z.string(), KNOWN, [sessions, limit]);
}
