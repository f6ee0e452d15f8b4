import { type AgentDefinition, limitsOf } from '../agent/definition/define.ts';
import { classifyOwn } from '../agent/provider-failures/classify-provider-error.ts';
import { attemptStep } from '../agent/step/attempt-step.ts';
import type { StepArgs, StepOutcome } from '../domain/activities.ts';
import { PerdureError } from '../domain/errors.ts';
import type { RunFailure } from '../domain/runs.ts';
import { type ClaimedStep, claimStep } from '../store/steps.ts';
import type { ActivityContext } from './activity-context.ts';
import type { Attempt } from './claims/attempt.ts';
import { claimWhenFree } from './claims/claim-when-free.ts';
import { failRun } from './claims/fail-run.ts';
import { writeUntilStored } from './claims/write-until-stored.ts';
import { PostgresStepRecorder } from './recording/postgres-step-recorder.ts';
import { restoreFiles, snapshotTurn } from './recording/snapshots.ts';

const TOO_LONG: RunFailure = {
  code: 'ContextTooLong',
  message: 'The conversation is longer than 32 MiB: compact or prune it, or branch from an earlier message.',
};

const NOT_RESTORED: RunFailure = {
  code: 'WorkspaceNotUsable',
  message:
    'The files of an earlier state could not be restored: to go on with the files as they are, have the message answered again, or send a new message.',
};

/**
 * One model call of a run, from claim to settlement. Idempotent by the run's `last_step`: for a settled step it returns
 * what was settled. Never returns content.
 * @param countStream counts the model's stream from the claim to the end
 */
export async function streamStepActivity(
  context: ActivityContext,
  args: StepArgs,
  { claim, stop }: Attempt,
  countStream: () => Disposable,
): Promise<StepOutcome> {
  const claimed = await claimWhenFree({ context, claim, stop }, () =>
    claimStep(context.db, claim, { step: args.step, startedAt: args.started_at }),
  );
  if (claimed.kind !== 'claimed') return claimed;
  using _ = countStream();
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'status' });
  const found = agentOf(context, claimed.agent);
  if ('missing' in found) return await failRun({ context, claim, stop }, found.missing);
  const agent = withTokensLeft(found.agent, claimed);
  const { view } = claimed;
  if (view === null) return await failRun({ context, claim, stop }, TOO_LONG);
  stop.limitTo(limitsOf(agent).wall_clock_ms - claimed.elapsed_ms);
  const isFirst = args.step === 0;
  const restored = () => restoreFiles(context, args.session_id, { beginsTurn: true });
  if (isFirst && claimed.restoring && !(await writeUntilStored({ context, claim, stop }, restored))) {
    return await failRun({ context, claim, stop }, NOT_RESTORED);
  }
  // While the model answers: no tool of this turn runs before the step is settled.
  const ready = isFirst
    ? snapshotTurn(context, { sessionId: args.session_id, ...claimed }, claimed.message_id)
    : Promise.resolve();
  const { step, attempt, waited = 0, compaction } = args;
  const mayCompact = compaction === 'ask';
  const { providerAttempts: attempts } = context.settings;
  const work = { context, step, claim, claimed: { ...claimed, view }, agent, mayCompact, stop, ready };
  const recorder = new PostgresStepRecorder(work, attempt);
  return await attemptStep({ agent, step, tokens: claimed.tokens, attempt, waited, attempts, stop }, recorder);
}

/** The agent of a child has no more tokens than the turns above it have left. */
function withTokensLeft(agent: AgentDefinition, { tokens, tokens_left: left }: ClaimedStep): AgentDefinition {
  if (left === null) return agent;
  const limits = limitsOf(agent);
  return { ...agent, limits: { ...limits, tokens: Math.min(limits.tokens, tokens + Math.max(left, 0)) } };
}

/** The session's agent, or how the run ends if this worker does not have it. */
function agentOf(context: ActivityContext, id: string): { agent: AgentDefinition } | { missing: RunFailure } {
  try {
    return { agent: context.agents.get(id) };
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error;
    return { missing: classifyOwn(error) };
  }
}
