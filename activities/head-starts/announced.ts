import pRetry from 'p-retry';
import { reportHeadStart } from '../../store/runs.ts';
import type { ActivityContext } from '../activity-context.ts';
import type { Attempt } from '../claims/attempt.ts';
import type { StepOrToolOutcome } from './led-session.ts';

/** Interval at which a long unit tells its row that it is in progress, until it has told that an activity has adopted it. */
const NOTE_MS = 500;
/** Repeats of a report that a head start has failed, over about ten seconds. */
const REPORTS = 7;
const REPORT_AGAIN_MS = 80;

/** Tells the row, at intervals, that the unit is in progress without an activity; and once when it has one, or has failed. */
export async function announced<Kind extends StepOrToolOutcome>(
  { db, worker }: ActivityContext,
  attempt: Attempt,
  work: Promise<Kind>,
): Promise<Kind> {
  let isNoting = false;
  const note = async () => {
    if (isNoting) return;
    isNoting = true;
    const { isAttached } = attempt.stop;
    if (isAttached) clearInterval(timer);
    await reportHeadStart(db, attempt.claim, isAttached ? 'adopted' : 'alive', worker).catch(() => {});
    isNoting = false;
  };
  const timer = setInterval(() => void note(), NOTE_MS);
  // Others wait for its outcome until they hear that there is none. Postgres may be why.
  const failed = () => {
    const report = () => reportHeadStart(db, attempt.claim, 'failed', worker);
    void pRetry(report, { retries: REPORTS, minTimeout: REPORT_AGAIN_MS }).catch(() => {});
  };
  try {
    const outcome = await work;
    if (attempt.stop.why !== undefined && outcome.kind !== 'settled') failed();
    return outcome;
  } catch (error) {
    failed();
    throw error;
  } finally {
    clearInterval(timer);
  }
}
