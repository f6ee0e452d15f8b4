// When short work at the row takes so long that its workflow task has to be prolonged, other news comes before its
// outcome: of an activity, of another update. Replayed, the outcome comes first. So whatever else a workflow hears has
// its effect behind what is at the row, or the history could not replay.
import { CancellationScope, condition } from '@temporalio/workflow';
import type { SessionState } from './state.ts';

/** Short work at the row, with what follows from its outcome at once. */
export async function atTheRow<T>(session: SessionState, work: () => Promise<T>): Promise<T> {
  session.atTheRow += 1;
  try {
    return await work();
  } finally {
    session.atTheRow -= 1;
  }
}

/** Waits, cancelled or not, until nothing is at the row. */
export async function behindTheRow(session: SessionState): Promise<void> {
  if (session.atTheRow === 0) return;
  await CancellationScope.nonCancellable(() => condition(() => session.atTheRow === 0));
}
