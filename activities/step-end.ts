import { ApplicationFailure } from '@temporalio/activity';
import type { AgentDefinition, Limits } from '../agent/define.ts';
import type { StopSignal } from '../agent/stop.ts';
import { backoffMs, classifyProviderError, type ProviderFailure } from '../agent/provider-errors.ts';
import type { NotBegun, RunOutcome, StepArgs, StepOutcome } from '../domain/commands.ts';
import { type RunErrorCode, retryMessage } from '../domain/runs.ts';
import { appendStream, type Claim, type ClaimedStep, noteRetry, settleRun } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { logOvertaken, writeUntilStored } from './write-until-stored.ts';
import { limitMessage } from './limits.ts';
import type { Recorder } from './recorder.ts';

/** One step at work: what it was claimed with and what it writes through. */
export interface Work {
  context: ActivityContext;
  args: StepArgs;
  claim: Claim;
  claimed: ClaimedStep;
  agent: AgentDefinition;
  limits: Limits;
  stop: StopSignal;
  recorder: Recorder;
}

/** Why a run ends as an error; the message is for the user and says what to do. */
export interface RunFailure {
  code: RunErrorCode;
  message: string;
}

/** What becomes of a step whose signal fired. Its words stay as the user saw them. */
export async function stopped(work: Work, error: unknown): Promise<StepOutcome> {
  const { context, claim, stop, recorder, limits } = work;
  switch (stop.why) {
    case 'lost':
      logOvertaken(work);
      return { kind: 'lost' };
    case 'abort':
      await recorder.freeze();
      await landRest(work);
      context.metrics.aborted(stop.seconds);
      return { kind: 'abort' };
    case 'wall_clock':
      await landRest(work);
      return failRun(context, claim, { code: 'LimitReached', message: limitMessage('wall_clock', limits) });
    case 'timeout':
      return failed(work, {
        kind: 'retryable',
        code: 'ProviderUnavailable',
        reason: 'the model did not answer in time',
      });
    case 'shutdown':
      await landRest(work);
      throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
    default:
      throw error;
  }
}

async function landRest(work: Work): Promise<void> {
  const { context, claim, recorder } = work;
  if (!recorder.dirty) return;
  const batch = recorder.take();
  // Nothing but `lost` can come of it, and then somebody else has the last word.
  await writeUntilStored(work, (mine) => appendStream(context.db, mine, batch));
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
}

/** A provider's failure in passing is a value, for the workflow to wait and try again; a final one ends the run. */
export async function failed(work: Work, error: unknown): Promise<StepOutcome> {
  const { context, args, claim } = work;
  if (isDatabaseError(error)) throw error;
  const failure = isFailure(error) ? error : classifyProviderError(error);
  if (failure.kind === 'final') {
    if (failure.code === 'Internal')
      context.log.error({ err: error, session: claim.sessionId, run: claim.runSeq }, 'a step failed');
    await landRest(work);
    return failRun(context, claim, failure);
  }
  await landRest(work);
  if (args.attempt >= context.settings.providerAttempts) {
    const message = `${failure.reason}; gave up after ${args.attempt} attempts: send a new message later.`;
    return failRun(context, claim, { code: failure.code, message });
  }
  const delay = backoffMs(args.attempt, failure.retryAfterMs);
  if (delay >= work.stop.timeLeftMs) {
    const message = `${failure.reason}; it asks to wait for longer than the turn may take: send a new message later.`;
    return failRun(context, claim, { code: failure.code, message });
  }
  const retry = { attempt: args.attempt, reason: retryMessage(failure.reason, delay), at: Date.now() + delay };
  if (!(await writeUntilStored(work, (mine) => noteRetry(context.db, mine, retry)))) return { kind: 'lost' };
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'status' });
  return { kind: 'retry', code: failure.code, reason: failure.reason, delay_ms: delay };
}

function isFailure(value: unknown): value is ProviderFailure {
  return typeof value === 'object' && value !== null && 'kind' in value && !(value instanceof Error);
}

/** Postgres' own errors have an SQLSTATE and a severity; connection errors of its client come from the pool. */
function isDatabaseError(error: unknown): boolean {
  return (
    error instanceof Error &&
    ('severity' in error || error.stack?.includes('pg-pool') === true || error.message === 'Query read timeout')
  );
}

/** The outcome of a call that its turn did not come to. */
export const TOOL_NOT_RUN = 'The turn ended before this tool call could run.';

/** Ends the run as an error, unless somebody else has taken it. */
export async function failRun(
  context: ActivityContext,
  claim: Claim,
  end: RunFailure,
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const outcome = await settleRun(context.db, claim, {
    state: 'error',
    code: end.code,
    message: end.message,
    toolError: TOOL_NOT_RUN,
  });
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' });
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'status' });
  if (outcome.kind === 'ended') context.metrics.turnEnded(outcome.state, outcome.code);
  return outcome;
}
