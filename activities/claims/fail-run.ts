import { TOOL_NOT_RUN } from '../../agent/tools/attempt-tool-call.ts';
import { publishEnded } from '../../bus/bus.ts';
import type { NotBegun, RunOutcome } from '../../domain/activities.ts';
import type { RunFailure } from '../../domain/runs.ts';
import { type RunSettlement, settleRun } from '../../store/runs.ts';
import { type Writer, writeUntilStored } from './write-until-stored.ts';

/**
 * Ends the run as an error, unless another attempt has taken it.
 * @param answer the last parts of the answer, stored with the end of the run
 */
export async function failRun(
  writer: Writer,
  { code, message, cause }: RunFailure,
  answer?: RunSettlement['answer'],
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const { context, claim } = writer;
  const run = { session: claim.sessionId, run: claim.runSeq };
  if (code === 'Internal') context.log.error({ err: cause, ...run }, 'a step failed');
  const end = { state: 'error', code, message, toolError: TOOL_NOT_RUN, ...(answer && { answer }) } as const;
  const outcome = await writeUntilStored(writer, (mine) => settleRun(context.db, mine, end));
  context.bus.publish({ ...run, kind: 'stream', over: true });
  context.bus.publish({ ...run, kind: 'status' });
  if (outcome.kind === 'ended') {
    publishEnded(context.bus, outcome.children ?? []);
    context.metrics.turnEnded(outcome.state, outcome.code);
  }
  return outcome;
}
