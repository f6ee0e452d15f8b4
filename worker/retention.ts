import type pg from 'pg';
import { sweepOutputs, sweepRefusals } from '../store/retention.ts';

const BATCH = 1_000;
/** Batches per sweep and table: what is left waits for the next sweep. */
const BATCHES = 20;

/** Ages in milliseconds. */
export interface RetentionSettings {
  retentionRefusalsMs: number;
  retentionOutputsMs: number;
}

/** Deletes what has expired, in bounded batches; several workers share the work. */
export async function sweepExpired(db: pg.Pool, ages: RetentionSettings, signal: AbortSignal): Promise<void> {
  for (const sweep of [
    () => sweepRefusals(db, ages.retentionRefusalsMs, BATCH),
    () => sweepOutputs(db, ages.retentionOutputsMs, BATCH),
  ]) {
    for (let batch = 0; batch < BATCHES && !signal.aborted; batch += 1) if ((await sweep()) === 0) break;
  }
}
