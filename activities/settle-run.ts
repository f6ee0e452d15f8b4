import { publishEnded } from '../bus/bus.ts';
import type { RunOutcome, SettleArgs } from '../domain/activities.ts';
import { settleRun } from '../store/runs.ts';
import type { ActivityContext } from './activity-context.ts';

/** Ends a run for its workflow: aborted, or as an internal error. */
export async function settleRunActivity(context: ActivityContext, args: SettleArgs): Promise<RunOutcome> {
  const outcome = await settleRun(
    context.db,
    { sessionId: args.session_id, runSeq: args.run_seq },
    args.end === 'aborted'
      ? { state: 'aborted' }
      : {
          state: 'error',
          code: 'Internal',
          message: 'An internal error occurred: send a new message, or see the worker’s log.',
        },
  );
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'stream', over: true });
  context.bus.publish({ session: args.session_id, kind: 'status' });
  // A settlement without a fence is never refused as lost.
  const ended = outcome as RunOutcome;
  publishEnded(context.bus, ended.children ?? []);
  context.metrics.turnEnded(ended.state, ended.code);
  return ended;
}
