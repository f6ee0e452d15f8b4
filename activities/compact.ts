import { ApplicationFailure, Context } from '@temporalio/activity';
import type { UIMessage } from 'ai';
import type { Summarized } from '../agent/compaction/summarize.ts';
import { countTokens, messageTokens } from '../agent/compaction/tokens.ts';
import { compactionOf } from '../agent/definition/compaction-schema.ts';
import { type AgentDefinition, limitsOf } from '../agent/definition/define.ts';
import type { ResolvedModel } from '../agent/models/models.ts';
import { classifyOwn } from '../agent/provider-failures/classify-provider-error.ts';
import { limitFailure } from '../agent/step/limits.ts';
import type { CompactArgs, CompactOutcome } from '../domain/activities.ts';
import { type CompactionPlan, planCompaction } from '../domain/compaction-plan.ts';
import { type CompactionSettings, shownSummary, summaryOf, usableTokens } from '../domain/compaction.ts';
import { ContentUnavailableError } from '../domain/content-unavailable-error.ts';
import { PerdureError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { planPrune } from '../domain/plan-prune.ts';
import type { RunFailure } from '../domain/runs.ts';
import {
  claimCompaction,
  type ClaimedCompaction,
  type CompactionNote,
  finishCompaction,
  type MadePrune,
  noteCompaction,
  storeCompaction,
  storePrune,
} from '../store/compaction.ts';
import { viewMessages } from '../store/view-messages.ts';
import type { ActivityContext } from './activity-context.ts';
import { claimWhenFree } from './claims/claim-when-free.ts';
import { failRun } from './claims/fail-run.ts';
import { RunStop } from './claims/run-stop.ts';
import { type Writer, writeUntilStored } from './claims/write-until-stored.ts';
import { shownMessages } from './prompt/step-prompt.ts';
import { withAttachments } from './prompt/with-attachments.ts';
import { countWindow } from './window/count-window.ts';
import { askForSummary, notUsed, storedSummary } from './window/summary.ts';
import { seenOutputs } from './window/window.ts';

/** A compaction frees a tenth more than it has to, so that the next step does not need another one. */
const SPARE = 0.9;

function tooLong(canPrune: boolean): RunFailure {
  const advice = `${canPrune ? 'prune it, ' : ''}branch from an earlier message, or open a new session`;
  return {
    code: 'ContextTooLong',
    message: `The conversation is too long, also for the model that would summarize it: ${advice}.`,
  };
}

/**
 * Compacts the conversation of a run before one of its steps, or as all that a run by hand does. Prunes tool outputs; if
 * that is not enough, summarizes the turns before the newest ones. All is stored at once, a summary with the prune of what
 * stays: an attempt whose worker is lost leaves nothing.
 * @param graceOver as of `RunStop`
 */
export async function compact(
  context: ActivityContext,
  args: CompactArgs,
  graceOver: AbortSignal,
): Promise<CompactOutcome> {
  using stop = new RunStop(context.bus, args, graceOver);
  const activity = Context.current();
  stop.attach(activity, context.settings);
  return await stop.inTime(compactFor(context, args, stop, activity.info.attempt));
}

async function compactFor(
  context: ActivityContext,
  args: CompactArgs,
  stop: RunStop,
  attempt: number,
): Promise<CompactOutcome> {
  const { session_id: sessionId, run_seq: runSeq, epoch, ordinal } = args;
  const claim = { sessionId, runSeq, fence: [epoch, ordinal, attempt] as const };
  const writer: Writer = { context, claim: { ...claim }, stop };
  const claimed = await claimWhenFree(writer, () => claimCompaction(context.db, claim, args.started_at));
  if (claimed.kind === 'compacted') {
    if (!claimed.by_hand) return { kind: 'compacted', result: claimed.result };
    return claimed.result === 'failed' ? failRun(writer, failedByHand(claimed.warning)) : finish(writer);
  }
  if (claimed.kind !== 'claimed') return claimed;
  const status = { session: sessionId, run: runSeq, kind: 'status' } as const;
  context.bus.publish(status);
  try {
    const outcome = await new Compaction(writer, args, claimed).make();
    context.bus.publish({ session: sessionId, run: runSeq, kind: 'stream' });
    context.bus.publish(status);
    return outcome;
  } catch (error) {
    if (stop.why === 'abort') return { kind: 'abort' };
    if (stop.why === 'lost') return { kind: 'lost' };
    if (stop.why === 'shutdown') throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
    if (stop.why === 'wall_clock') {
      return failRun(writer, limitFailure('wall_clock', limitsOf(context.agents.get(claimed.agent))));
    }
    throw error;
  }
}

/** The agent, its settings, the model whose window counts, and what that sees. */
export interface Prepared {
  agent: AgentDefinition;
  model: ResolvedModel;
  settings: CompactionSettings;
  messages: UIMessage[];
}

class Compaction {
  private readonly writer: Writer;
  private readonly args: CompactArgs;
  private readonly claimed: ClaimedCompaction;

  constructor(writer: Writer, args: CompactArgs, claimed: ClaimedCompaction) {
    this.writer = writer;
    this.args = args;
    this.claimed = claimed;
  }

  async make(): Promise<CompactOutcome> {
    const { view } = this.claimed;
    if (view === null) return failRun(this.writer, tooLong(true));
    const prepared = this.prepare(shownMessages(view));
    if ('code' in prepared) return failRun(this.writer, prepared);
    const { context, stop } = this.writer;
    stop.limitTo(limitsOf(prepared.agent).wall_clock_ms - this.claimed.elapsed_ms);
    if (this.args.reason === 'prune') return this.pruneOnly(prepared);
    const reading = { context, sessionId: this.args.session_id, signal: stop.signal };
    try {
      prepared.messages = await withAttachments(reading, prepared.messages);
    } catch (error) {
      if (!(error instanceof ContentUnavailableError)) throw error;
      return this.withoutAttachments(error);
    }
    return this.compact(prepared);
  }

  /** A turn waits for the store of attachments, as its steps do, within its time limit; a run by hand ends. */
  private async withoutAttachments(error: ContentUnavailableError): Promise<CompactOutcome> {
    if (this.isByHand || error.isRefused) return this.notMade(notCompacted(error.message), undefined);
    this.writer.context.log.warn({ err: error, ...this.labels }, 'a compaction waits for the store of attachments');
    const type = 'AttachmentsUnavailable';
    throw ApplicationFailure.create({ message: type, type, cause: error, nonRetryable: false });
  }

  private prepare(messages: UIMessage[]): Prepared | RunFailure {
    const { agents, models } = this.writer.context;
    try {
      const agent = agents.get(this.claimed.agent);
      const model = models.resolve(this.claimed.model ?? agent.model ?? models.defaultRef);
      return { agent, model, settings: compactionOf(agent), messages };
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      return classifyOwn(error);
    }
  }

  /** By hand: everything; at `prune_at`: until the conversation is below it. */
  private async pruneOnly(prepared: Prepared): Promise<CompactOutcome> {
    const { settings, model } = prepared;
    const { tokens } = this.args;
    const most = SPARE * (settings.prune_at ?? 1) * usableTokens(model, settings);
    return this.pruned(await this.prune(prepared, tokens === undefined ? Infinity : tokens - most));
  }

  private async compact(prepared: Prepared): Promise<CompactOutcome> {
    const { settings, model, messages } = prepared;
    const { tokens: used, reason } = this.args;
    const usable = usableTokens(model, settings);
    const threshold = settings.compact_at * usable;
    // How much is too much is not known of a provider that refuses the conversation, and does not matter to a user who asks.
    const enough = reason === 'window' && used !== undefined ? used - SPARE * threshold : Infinity;
    const prune = await this.prune(prepared, enough);
    if (prune && prune.data.tokens >= enough) return this.pruned(prune);
    const plan = planCompaction(await this.sizes(messages), this.claimed.message_id, usable, settings);
    if (plan === undefined) return this.pruned(prune);
    const rest = async (freed: number) => {
      // Below the threshold is enough here, also without the spare.
      if (this.isByHand || enough - freed < (1 - SPARE) * threshold) return undefined;
      return this.prune({ ...prepared, messages: this.staying(messages, plan) }, enough - freed);
    };
    return this.summarize(prepared, plan, { rest, prune });
  }

  /** The visible messages, with what the model sees of them. */
  private async sizes(messages: readonly UIMessage[]) {
    const shown = new Map(messages.map((message) => [message.id, message]));
    const sized = viewMessages(this.claimed.view ?? []).map(async ({ id, role, parts }) => {
      const message = shown.get(id);
      return { id, role, tokens: message ? await messageTokens([message]) : 0, turns: summaryOf(parts)?.turns };
    });
    return Promise.all(sized);
  }

  /**
   * @param prunes `rest`: of what stays, also of the turn in progress, if the summary frees too little; `prune`: before a turn
   * without a summary. Each is stored together with what it follows from.
   */
  private async summarize(
    prepared: Prepared,
    plan: CompactionPlan,
    prunes: { rest: (freed: number) => Promise<MadePrune | undefined>; prune: MadePrune | undefined },
  ): Promise<CompactOutcome> {
    const instead = this.isByHand ? undefined : prunes.prune;
    const gone = new Set(plan.summarized);
    const replaced = prepared.messages.filter(({ id }) => gone.has(id));
    const replacedTokens = await messageTokens(replaced);
    const made = await askForSummary(this.writer, replaced, { ...prepared, mostTokens: replacedTokens });
    if (!('kind' in made)) {
      // Nothing was asked and nothing is noted: another attempt finds the same.
      if (this.isByHand) return failRun(this.writer, { ...made, message: notAsked(made.message) });
      return this.notMade(notCompacted(made.message), instead);
    }
    const tokens = await countTokens(shownSummary(made.text));
    const freed = replacedTokens - tokens;
    if (made.kind === 'summary' && freed > 0) {
      await this.store(made, plan, { tokens, freed }, await prunes.rest(freed));
      return this.ended('summarized');
    }
    const warning = notCompacted(notUsed(made));
    // What was answered was paid for.
    const isPaid = made.calls.length > 0;
    const discarded = { state: 'failed', warning } as const;
    if (isPaid) await this.store(made, plan, { tokens, freed: 0, discarded }, instead);
    if (made.kind === 'too_long' && instead === undefined) {
      return failRun(this.writer, tooLong(prunes.prune !== undefined));
    }
    return this.notMade(warning, instead, isPaid);
  }

  /** The messages whose tool outputs the model still sees after a summary. */
  private staying(messages: UIMessage[], { summarized, isSplit }: CompactionPlan): UIMessage[] {
    // Of the turn that is split no output stays.
    if (isSplit) return messages.slice(messages.findIndex(({ id }) => id === this.claimed.message_id));
    const gone = new Set(summarized);
    return messages.filter(({ id }) => !gone.has(id));
  }

  private async store(
    made: Summarized,
    plan: CompactionPlan,
    size: Parameters<typeof storedSummary>[1],
    prune: MadePrune | undefined,
  ): Promise<void> {
    const { context } = this.writer;
    const byHand = this.isByHand ? this.claimed.answer_id : undefined;
    const { summary, note } = storedSummary({ context, labels: this.labels, made, plan, byHand }, size);
    if (note.state === 'summarized' && note.warning) context.log.warn(this.labels, note.warning);
    await this.stored((claim) => storeCompaction(context.db, claim, summary, withPrune(note, prune), prune));
  }

  /** A prune of outputs until `enough` tokens are freed. Undefined: there are none to prune. */
  private async prune({ messages, agent, settings }: Prepared, enough: number): Promise<MadePrune | undefined> {
    const seen = await seenOutputs(messages, this.claimed.message_id, agent);
    const outputs = planPrune(seen, enough, settings);
    if (outputs.length === 0) return undefined;
    const tokens = outputs.reduce((sum, output) => sum + output.tokens, 0);
    return {
      message_id: this.isByHand ? this.claimed.answer_id : newId('msg'),
      part_id: newId('prt'),
      metadata: {},
      type: 'data-prune',
      data: { outputs, tokens, auto: !this.isByHand },
    };
  }

  /** Ends with this prune as all that is done. */
  private async pruned(prune: MadePrune | undefined): Promise<CompactOutcome> {
    const { context } = this.writer;
    if (prune === undefined) return this.ended('none', { state: 'none' });
    await this.stored((claim) => storePrune(context.db, claim, prune, withPrune({ state: 'pruned' }, prune)));
    return this.ended('pruned');
  }

  /** No summary could be made: a turn goes on without one, pruned as far as it can be; a run by hand ends. */
  private async notMade(warning: string, prune: MadePrune | undefined, isStored = false): Promise<CompactOutcome> {
    const { context } = this.writer;
    context.log.warn({ ...this.labels, warning }, 'a conversation could not be compacted');
    const note = withPrune({ state: 'failed', warning }, prune);
    if (!isStored) {
      await this.stored((claim) =>
        prune ? storePrune(context.db, claim, prune, note) : noteCompaction(context.db, claim, note),
      );
    }
    if (this.isByHand) return failRun(this.writer, failedByHand(warning));
    if (prune) await countWindow(context, this.args.session_id);
    return { kind: 'compacted', result: 'failed' };
  }

  private async ended(result: 'summarized' | 'pruned' | 'none', note?: CompactionNote): Promise<CompactOutcome> {
    const { context } = this.writer;
    if (note) await this.stored((claim) => noteCompaction(context.db, claim, note));
    else await countWindow(context, this.args.session_id);
    return this.isByHand ? finish(this.writer) : { kind: 'compacted', result };
  }

  /** Writes under the claim. @throws the stop's reason if another attempt has it */
  private async stored(write: (claim: Writer['claim']) => Promise<boolean>): Promise<void> {
    const { stop } = this.writer;
    if (!(await writeUntilStored(this.writer, write))) stop.fire('lost');
    stop.signal.throwIfAborted();
  }

  private get isByHand(): boolean {
    return this.claimed.message_id === null;
  }

  private get labels() {
    return { session: this.args.session_id, run: this.args.run_seq };
  }
}

function withPrune(note: CompactionNote, prune: MadePrune | undefined): CompactionNote {
  return prune === undefined ? note : { ...note, tokens: (note.tokens ?? 0) + prune.data.tokens };
}

function notCompacted(reason: string): string {
  return `The conversation could not be compacted: ${reason}`;
}

/** How a run by hand ends that could not make a summary. */
function failedByHand(warning: string | null): RunFailure {
  const what = warning ?? 'The conversation could not be compacted';
  return { code: 'CompactionFailed', message: `${what}. Try again, or send a message to go on.` };
}

/** How a run by hand ends whose summarizer is not there. */
function notAsked(reason: string): string {
  return `${notCompacted(reason)}. Compact it again once the workers have the model of the summarizer, or send a message to go on.`;
}

/** Ends a run by hand. */
async function finish(writer: Writer): Promise<CompactOutcome> {
  const { context, claim } = writer;
  const outcome = await writeUntilStored(writer, (mine) => finishCompaction(context.db, mine));
  const { sessionId: session, runSeq: run } = claim;
  context.bus.publish({ session, run, kind: 'stream', over: true });
  context.bus.publish({ session, run, kind: 'status' });
  return outcome;
}
