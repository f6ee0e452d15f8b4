import { TOOL_NOT_RUN } from '../agent/tool-call.ts';
import type { NotBegun, RunOutcome } from '../domain/commands.ts';
import type { RunFailure } from '../domain/runs.ts';
import { type Claim, settleRun } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';

/** Ends the run as an error, unless another attempt has taken it. */
export async function failRun(
  context: ActivityContext,
  claim: Claim,
  { code, message, cause }: RunFailure,
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const run = { session: claim.sessionId, run: claim.runSeq };
  if (code === 'Internal') context.log.error({ err: cause, ...run }, 'a step failed');
  const outcome = await settleRun(context.db, claim, { state: 'error', code, message, toolError: TOOL_NOT_RUN });
  context.bus.publish({ ...run, kind: 'stream' });
  context.bus.publish({ ...run, kind: 'status' });
  if (outcome.kind === 'ended') context.metrics.turnEnded(outcome.state, outcome.code);
  return outcome;
}
