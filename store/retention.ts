import { z } from 'zod';
import { call, type Db } from './db.ts';

/** Deletes up to `limit` refusals that are older than `olderMs`. Returns how many. */
export function sweepRefusals(db: Db, olderMs: number, limit: number): Promise<number> {
  return call(db, z.number(), 'sweep_refusals', [olderMs, limit]);
}

/** Deletes up to `limit` whole tool outputs that are older than `olderMs`, and as many expired cached results. */
export function sweepOutputs(db: Db, olderMs: number, limit: number): Promise<number> {
  return call(db, z.number(), 'sweep_outputs', [olderMs, limit]);
}
