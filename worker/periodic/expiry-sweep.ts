import type pg from 'pg';
import type { Contents } from '../../store/contents.ts';
import { sweepOutputs, sweepRefusals } from '../../store/retention.ts';

const BATCH = 1_000;
/** Of contents, each of which may be a request to an S3-compatible store. */
const CONTENTS = 50;
/** Batches per sweep and table: what is left waits for the next sweep. */
const BATCHES = 20;

/** Ages in milliseconds. */
export interface RetentionSettings {
  retentionRefusalsMs: number;
  retentionOutputsMs: number;
}

/** A task that deletes what has expired, in bounded batches; several workers share the work. */
export function expirySweep(
  db: pg.Pool,
  contents: Contents,
  ages: RetentionSettings,
): (signal: AbortSignal) => Promise<void> {
  /** Where the next batch of refusals begins; undefined: at the oldest. */
  let after: string | undefined;
  const sweeps = [
    async () => (after = await sweepRefusals(db, ages.retentionRefusalsMs, BATCH, after)) !== undefined,
    async () => (await sweepOutputs(db, ages.retentionOutputsMs, BATCH)) > 0,
    async () => (await contents.sweep(CONTENTS)) > 0,
  ];
  return async (signal) => {
    for (const sweep of sweeps) {
      for (let batch = 0; batch < BATCHES && !signal.aborted; batch += 1) if (!(await sweep())) break;
    }
  };
}
