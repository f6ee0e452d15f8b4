import type { Models, ResolvedModel } from '../../agent/models/models.ts';
import type { NotBegun, RunOutcome, StepOutcome } from '../../domain/activities.ts';
import type { CompactionReason } from '../../domain/compaction.ts';
import { PerdureError } from '../../domain/errors.ts';
import { noteCompaction, undoSwitch } from '../../store/compaction.ts';
import type { Claimed } from '../claims/claimed.ts';
import { failRun } from '../claims/fail-run.ts';
import { writeUntilStored } from '../claims/write-until-stored.ts';
import type { StepPrompt } from '../prompt/step-prompt.ts';
import type { JudgedStep, Judgement } from './window.ts';

// What a step does whose conversation does not fit into its model's window.

/** The facts of a step that its conversation is judged by. */
export function judgedStep(
  { claimed, agent, step, mayCompact }: Claimed,
  { model, prompt }: { model: ResolvedModel; prompt: StepPrompt },
): JudgedStep {
  const { message_id: messageId, reported, compaction } = claimed;
  const mayAsk = mayCompact && compaction !== 'failed';
  return { agent, model, prompt, messageId, step, reported, mayAsk, noTurns: compaction === 'none' };
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

/** Ends the turn with advice. After a switch of models, the session has its former one again, if that can still be called. */
export async function failTooLong(
  work: Claimed,
  { failure, former }: Extract<Judgement, { kind: 'too_long' }>,
): Promise<RunOutcome | Extract<NotBegun, { kind: 'lost' }>> {
  const { db, models } = work.context;
  if (former !== undefined && isConfigured(models, former)) {
    await writeUntilStored(work, (mine) => undoSwitch(db, mine, former));
  }
  return failRun(work, failure);
}

function isConfigured(models: Models, ref: string): boolean {
  try {
    return models.resolve(ref).ref === ref;
  } catch (error) {
    if (error instanceof PerdureError) return false;
    throw error;
  }
}
