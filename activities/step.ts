import { Context } from '@temporalio/activity';
import { type AgentDefinition, limitsOf } from '../agent/define.ts';
import { attemptStep } from '../agent/step-attempt.ts';
import type { StepArgs, StepOutcome } from '../domain/commands.ts';
import { PerdureError } from '../domain/errors.ts';
import type { RunFailure } from '../domain/runs.ts';
import { type Claim, claimStep } from '../store/runs.ts';
import type { ActivityContext } from './context.ts';
import { failRun } from './end-run.ts';
import { PostgresStep } from './step-recorder.ts';
import { ActivityStop } from './stop.ts';

/**
 * One model call of a run, from claim to settlement. Idempotent by the run's `last_step`: for a settled step it returns
 * what was settled. Never returns content.
 */
export async function makeStep(context: ActivityContext, args: StepArgs): Promise<StepOutcome> {
  using stop = new ActivityStop(context, args);
  const fence = [args.epoch, args.ordinal, Context.current().info.attempt] as const;
  const claim: Claim = { sessionId: args.session_id, runSeq: args.run_seq, fence };
  const claimed = await claimStep(context.db, claim, { step: args.step, startedAt: args.started_at });
  if (claimed.kind !== 'claimed') return claimed;
  context.bus.publish({ session: args.session_id, run: args.run_seq, kind: 'status' });
  const found = agentOf(context, claimed.agent);
  if ('missing' in found) return await failRun({ context, claim, stop }, found.missing);
  const { agent } = found;
  stop.limitTo(limitsOf(agent).wall_clock_ms - claimed.elapsed_ms);
  const { step, attempt } = args;
  const { providerAttempts: attempts } = context.settings;
  const recorder = new PostgresStep({ context, step, claim, claimed, agent, stop });
  return await attemptStep({ agent, step, tokens: claimed.tokens, attempt, attempts, stop }, recorder);
}

/** The session's agent, or how the run ends if this worker does not have it. */
function agentOf(context: ActivityContext, id: string): { agent: AgentDefinition } | { missing: RunFailure } {
  try {
    return { agent: context.agents.get(id) };
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error;
    return { missing: { code: 'AgentNotConfigured', message: error.message } };
  }
}
