import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import type { Models, ResolvedModel } from '../../agent/models/models.ts';
import type { NotBegun, RunOutcome, StepOutcome } from '../../domain/activities.ts';
import { type CompactionReason, usableTokens } from '../../domain/compaction.ts';
import { PerdureError } from '../../domain/errors.ts';
import { noteCompaction, undoSwitch } from '../../store/compaction.ts';
import type { RunSettlement } from '../../store/runs.ts';
import type { Claimed } from '../claims/claimed.ts';
import { failRun } from '../claims/fail-run.ts';
import { writeUntilStored } from '../claims/write-until-stored.ts';
import type { StepPrompt } from '../prompt/step-prompt.ts';
import type { JudgedStep, Judgement } from './window.ts';

// What a step does whose conversation does not fit into its model's window.

/** The facts of a step that its conversation is judged by. */
export function judgedStep(
  { context, claimed, agent, step, mayCompact }: Claimed,
  { model, prompt }: { model: ResolvedModel; prompt: StepPrompt },
): JudgedStep {
  const { message_id: messageId, reported, compaction } = claimed;
  const mayAsk = mayCompact && compaction !== 'failed';
  const former = reported === null ? undefined : configured(context.models, reported.model);
  const isChanged = isJustPruned(claimed) || (former?.ref === model.ref && reported?.is_current === false);
  const noTurns = compaction === 'none';
  return { agent, model, former, prompt, messageId, step, reported, mayAsk, noTurns, isChanged };
}

/** A model, if it can be called. */
function configured(models: Models, ref: string): ResolvedModel | undefined {
  try {
    return models.resolve(ref);
  } catch (error) {
    if (error instanceof PerdureError) return undefined;
    throw error;
  }
}

/**
 * The model from which the session was switched to this one; undefined: it was not, or this one's window is known to be larger. The
 * conversation before the new message has fitted into the former one's window.
 */
export function switchedFrom({ former, model, agent }: JudgedStep): string | undefined {
  if (former === undefined || former.ref === model.ref) return undefined;
  const settings = compactionOf(agent);
  return usableTokens(model, settings) > usableTokens(former, settings) ? undefined : former.ref;
}

/** Whether outputs were pruned in this turn, and no step has reported its tokens since. */
function isJustPruned({ message_id: id, view, reported }: Claimed['claimed']): boolean {
  if (reported?.is_current === true) return false;
  const turn = view.slice(view.findIndex((part) => part.id === id));
  return turn.some(({ data }) => data.type === 'data-prune');
}

/** Leaves the step to a compaction, which readers see at once. */
export async function askForCompaction(
  work: Claimed,
  { reason, tokens }: { reason: CompactionReason; tokens?: number },
): Promise<StepOutcome> {
  const { context, claim } = work;
  const noted = await writeUntilStored(work, (mine) => noteCompaction(context.db, mine, { state: 'running' }));
  if (!noted) return { kind: 'lost' };
  context.bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'status' });
  return { kind: 'compact', reason, ...(tokens !== undefined && { tokens }) };
}

/**
 * Ends the turn with advice. After a switch of models, the session has its former one again.
 * @param answer as of `failRun`
 */
export async function failTooLong(
  work: Claimed,
  { failure, former }: Omit<Extract<Judgement, { kind: 'too_long' }>, 'kind'>,
  answer?: RunSettlement['answer'],
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const { db } = work.context;
  if (former !== undefined) await writeUntilStored(work, (mine) => undoSwitch(db, mine, former));
  return failRun(work, failure, answer);
}
