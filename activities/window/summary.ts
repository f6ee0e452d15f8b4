import type { UIMessage } from 'ai';
import { type Summarized, summarize } from '../../agent/compaction/summarize.ts';
import { SUMMARIZER } from '../../agent/compaction/summarizer.ts';
import type { ResolvedModel } from '../../agent/models/models.ts';
import type { CompactionPlan } from '../../domain/compaction-plan.ts';
import type { CompactionSettings } from '../../domain/compaction.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { RunFailure } from '../../domain/runs.ts';
import { addUsage, ZERO_USAGE } from '../../domain/usage.ts';
import type { CompactionNote, MadeSummary } from '../../store/compaction.ts';
import type { ActivityContext } from '../activity-context.ts';
import { noteProviderFailure } from '../claims/note-provider-failure.ts';
import type { Writer } from '../claims/write-until-stored.ts';
import { costOf } from '../cost.ts';

// The summary of a compaction: who makes it, and what is stored of it.

/** Asks the summarizer of the agent's settings. A failure without `kind`: there is no such agent or model. */
export async function askForSummary(
  writer: Writer,
  replaced: readonly UIMessage[],
  { model, settings, mostTokens }: { model: ResolvedModel; settings: CompactionSettings; mostTokens: number },
): Promise<Summarized | RunFailure> {
  const { context, stop } = writer;
  try {
    const agent = settings.summarizer === undefined ? SUMMARIZER : context.agents.get(settings.summarizer);
    const ref = agent.model ?? context.models.cheapest(model.ref);
    // The registry accepts no other prompt of a summarizer.
    const summarizer = { ...agent, prompt: String(agent.prompt) };
    const resolved = context.models.resolve(ref);
    const made = await summarize(replaced, {
      ...{ agent: summarizer, model: resolved, mostTokens, settings, stop },
      reasons: context.models.reasons(ref),
      mostOutput: agent === SUMMARIZER ? Infinity : (agent.max_output_tokens ?? Infinity),
    });
    if (made.kind === 'failed' && made.report) {
      await noteProviderFailure(writer, { ref, code: made.code, report: made.report });
    }
    return made;
  } catch (error) {
    if (error instanceof PerdureError) return { code: 'ModelNotConfigured', message: error.message };
    throw error;
  }
}

/** Why a summary is not used. */
export function notUsed(made: Summarized): string {
  if (made.kind === 'failed') return made.reason;
  return made.kind === 'too_long'
    ? 'the history is too long for the summarizer'
    : 'the summary was longer than what it would replace';
}

const OVER_BUDGET = 'the newest turns are too long, so only the last one stays as it is';
const IS_CUT = 'the summary was longer than its model may answer, so its end is missing';

/**
 * What is stored of a summary, and what the run's row says of it.
 *
 * @param given.byHand the id of its message, if a user asked for it
 * @param size tokens of the summary, and those that it frees; `discarded`: why it is not used
 */
export function storedSummary(
  given: {
    context: Pick<ActivityContext, 'hooks' | 'log'>;
    labels: { session: string; run: number };
    made: Summarized;
    plan: CompactionPlan;
    byHand: string | undefined;
  },
  { tokens, freed, discarded }: { tokens: number; freed: number; discarded?: CompactionNote },
): { summary: MadeSummary; note: CompactionNote } {
  const { context, labels, made, plan, byHand } = given;
  const steps = made.calls.map((call) => {
    const cost = costOf(context, labels, call);
    return { ...call, ...(cost !== undefined && { cost_usd: cost }) };
  });
  const costs = steps.flatMap(({ cost_usd: cost }) => (cost === undefined ? [] : [cost]));
  const usage = made.calls.reduce((sum, call) => addUsage(sum, call.usage), ZERO_USAGE);
  const { turns, tailStart, isSplit, isOverBudget } = plan;
  const warnings = [...(isOverBudget ? [OVER_BUDGET] : []), ...(made.kind === 'summary' && made.isCut ? [IS_CUT] : [])];
  const summary: MadeSummary = {
    message_id: discarded === undefined ? (byHand ?? newId('msg')) : newId('msg'),
    part_id: newId('prt'),
    metadata: { usage, steps, model: made.calls.at(-1)?.model, compaction: { turns, freed_tokens: freed } },
    type: 'data-compaction',
    data: {
      summary: made.text,
      tail_start_id: tailStart,
      auto: byHand === undefined,
      summary_tokens: tokens,
      turns,
      ...(isSplit && { split: true }),
    },
    usage,
    ...(costs.length > 0 && { cost_usd: costs.reduce((sum, cost) => sum + cost, 0) }),
    ...(discarded && { discarded: true }),
  };
  const warning = warnings.join('; ');
  const done = { state: 'summarized', turns, tokens: freed, ...(warning && { warning }) } as const;
  return { summary, note: discarded ?? done };
}
