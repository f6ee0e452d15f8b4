import { z } from 'zod';
import { call, column, type Db } from './db.ts';

/**
 * Reads up to `limit` refusals that are older than `olderMs`, and deletes those that are not a session's newest event.
 * @param after where to continue: what the last call returned
 * @returns undefined: there are no more
 */
export async function sweepRefusals(
  db: Db,
  olderMs: number,
  limit: number,
  after = '-infinity',
): Promise<string | undefined> {
  // As text, because a Date has no microseconds.
  const sql = 'SELECT sweep_refusals($1, $2, $3)::text';
  const [last] = await column(db, z.string().nullable(), sql, [olderMs, limit, after]);
  return last ?? undefined;
}

/** Deletes up to `limit` whole tool outputs that are older than `olderMs`, and as many expired cached results. */
export function sweepOutputs(db: Db, olderMs: number, limit: number): Promise<number> {
  return call(db, z.number(), 'sweep_outputs', [olderMs, limit]);
}
