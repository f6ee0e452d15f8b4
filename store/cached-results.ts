import { z } from 'zod';
import type { LastingScope } from '../domain/state-keys.ts';
import type { Json } from '../domain/text.ts';
import { call, column, type Db } from './db.ts';
import { jsonColumn } from './results.ts';

/** Where a cached result is kept: by session, or in the session's app for all sessions of a user or everybody. */
export interface CachePlace {
  scope: LastingScope;
  sessionId: string;
  userId: string;
  tool: string;
}

/** A cached result that has not expired. */
export async function readCached(
  db: Db,
  { scope, sessionId, userId, tool }: CachePlace,
  key: string,
): Promise<Json | undefined> {
  const sql = `SELECT r.value FROM cached_results r JOIN chat_sessions c USING (app)
                WHERE c.session_id = $2 AND r.scope = $1 AND r.owner = state_owner($1, $2, $3)
                  AND r.tool = $4 AND r.key = $5 AND r.expires_at > clock_timestamp()`;
  const [value] = await column(db, jsonColumn, sql, [scope, sessionId, userId, tool, key]);
  return value;
}

/** Caches a result for `ttlMs`, unless its session was erased. */
export async function writeCached(
  db: Db,
  { scope, sessionId, userId, tool }: CachePlace,
  key: string,
  value: Json,
  ttlMs: number,
): Promise<void> {
  await call(db, z.unknown(), 'cache_result', [scope, sessionId, userId, tool, key, JSON.stringify(value), ttlMs]);
}
