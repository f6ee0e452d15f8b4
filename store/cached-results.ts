import { z } from 'zod';
import type { Json } from '../domain/text.ts';
import { call, column, type Db } from './db.ts';
import { jsonColumn } from './results.ts';

/** Where a cached result is kept: by session, or for all sessions of a user or everybody. */
export interface CachePlace {
  scope: 'session' | 'user' | 'app';
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
  const sql = `SELECT value FROM cached_results
                WHERE scope = $1 AND owner = state_owner($1, $2, $3) AND tool = $4 AND key = $5 AND expires_at > clock_timestamp()`;
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
