import type { Logger } from 'pino';
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

/** Deletes what has expired, in bounded batches; several workers share the work. Never rejects. */
export async function sweepExpired(
  { db, log, settings }: { db: pg.Pool; log: Logger; settings: RetentionSettings },
  signal: AbortSignal,
): Promise<void> {
  const sweeps = [
    () => sweepRefusals(db, settings.retentionRefusalsMs, BATCH),
    () => sweepOutputs(db, settings.retentionOutputsMs, BATCH),
  ];
  try {
    for (const sweep of sweeps) {
      for (let batch = 0; batch < BATCHES && !signal.aborted; batch += 1) if ((await sweep()) === 0) break;
    }
  } catch (error) {
    log.warn({ err: error }, 'expired rows could not be deleted');
  }
}
