import { sendUpdate } from '../../client/send/send-update.ts';
import { claimDueRuns, type DueRun } from '../../store/sweep.ts';
import { submitUpdate } from '../../workflows/definitions.ts';
import { describeWorkflow } from './describe-workflow.ts';
import type { SweepDeps } from './sweep-deps.ts';

/** Runs of each state per sweep: a full sweep stays below 5,000 buffers of Postgres. */
export const WAKES_AT_ONCE = 50;
const DEADLINE_MS = 3_000;

interface SweeperDeps extends SweepDeps {
  /** Called for each session that is woken. */
  woken: () => void;
}

/**
 * Wakes sessions with an accepted message that no workflow processes: the wake-up was lost, Temporal was unreachable, or
 * the workflow was terminated. An unneeded wake-up does no harm: the row decides what runs.
 */
export async function sweepRuns(deps: SweeperDeps): Promise<void> {
  const runs = await claimDueRuns(deps.db, WAKES_AT_ONCE);
  await Promise.all(runs.map((run) => wake(deps, run)));
}

async function wake({ client, taskQueue, showUser, log, woken }: SweeperDeps, run: DueRun): Promise<void> {
  try {
    if (run.state === 'running' && (await describeWorkflow(client, run.session_id))?.status.name === 'RUNNING') return;
    log.info({ session: run.session_id, run: run.run_seq }, 'waking a session whose wake-up was lost');
    woken();
    await sendUpdate({ temporal: client, taskQueue, showUser }, run, {
      name: submitUpdate,
      id: `sweep:${run.run_seq}:${Date.now()}`,
      args: { run_seq: run.run_seq, message_id: run.message_id, model: run.model },
      deadlineMs: DEADLINE_MS,
    });
  } catch (error) {
    log.warn({ err: error, session: run.session_id, run: run.run_seq }, 'a session could not be woken');
  }
}
