import { getToolName, type UIMessage } from 'ai';
import { countTokens, messageTokens, mostTokens, outcomeText, outcomeTokens } from '../../agent/compaction/tokens.ts';
import { compactionOf } from '../../agent/definition/compaction-schema.ts';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import type { ResolvedModel } from '../../agent/models/models.ts';
import { type CompactionReason, isShownSummary, usableTokens } from '../../domain/compaction.ts';
import type { SeenOutput } from '../../domain/plan-prune.ts';
import type { RunFailure } from '../../domain/runs.ts';
import type { ReportedStep } from '../../store/steps.ts';
import type { StepPrompt } from '../prompt/step-prompt.ts';

// How much of its model's window a conversation fills, and what follows from that before a step.

type Part = UIMessage['parts'][number];

/** Whether a step can call its model: `compact` comes before it, or nothing helps. */
export type Judgement =
  | { kind: 'fits' }
  | { kind: 'compact'; reason: CompactionReason; tokens: number }
  /** `former`: the model, with a larger window, from which the session was switched to one with too small a window. */
  | { kind: 'too_long'; failure: RunFailure; former?: string };

/** A step that is about to call its model. */
export interface JudgedStep {
  agent: AgentDefinition;
  model: ResolvedModel;
  /** That of the newest step; undefined: there is none, or it can no longer be called. */
  former: ResolvedModel | undefined;
  prompt: Pick<StepPrompt, 'system' | 'tools' | 'messages'>;
  /** The message that is being answered. */
  messageId: string;
  step: number;
  reported: ReportedStep | null;
  /** It may ask for a compaction, and none has failed in this turn. */
  mayAsk: boolean;
  /** In this turn there were no earlier turns to summarize. */
  noTurns: boolean;
  /** The model's provider has not counted the conversation since it was pruned, summarized or changed otherwise. */
  isChanged: boolean;
}

/**
 * The least share of our count that a provider comes to. Until it has counted a changed conversation itself, only one that is too long
 * even by this share is refused here.
 */
const LEAST = 0.75;

/** Judges the conversation before a step. Counts tokens only if the conversation might be too long. */
export async function judgeWindow(given: JudgedStep): Promise<Judgement> {
  const { agent, model, former, prompt, step, messageId, reported, mayAsk } = given;
  const settings = compactionOf(agent);
  const usable = usableTokens(model, settings);
  const compactAt = settings.compact_at * usable;
  const pruneAt = step === 0 && mayAsk && settings.prune_at !== undefined ? settings.prune_at * usable : Infinity;
  const tokens = await windowInUse(prompt, reported, Math.min(compactAt, pruneAt));
  if (tokens === undefined) return { kind: 'fits' };
  const isSwitch = tokens >= usable && former !== undefined && usableTokens(former, settings) > usable;
  const isDue = isSwitch || (settings.auto && tokens >= compactAt);
  if (mayAsk && isDue && (await isCompactible(given))) return { kind: 'compact', reason: 'window', tokens };
  if (tokens >= pruneAt && (await canPrune(prompt.messages, messageId, agent))) {
    return { kind: 'compact', reason: 'prune', tokens };
  }
  const least = given.isChanged ? LEAST * tokens : tokens;
  if (isSwitch && least >= usable) return { kind: 'too_long', failure: NO_SWITCH, former: former.ref };
  return least >= model.maxInput ? { kind: 'too_long', failure: tooLong(tokens, model) } : { kind: 'fits' };
}

export const NO_SWITCH: RunFailure = {
  code: 'ContextTooLong',
  message:
    'Switching to a model with a smaller context window would lose the conversation; consider branching with the new model.',
};

function tooLong(tokens: number, { ref, maxInput }: ResolvedModel): RunFailure {
  const message = `The conversation has about ${tokens} tokens, and ${ref} takes ${maxInput}: edit the last message to a shorter one, branch from an earlier message, or choose a model with a larger context window.`;
  return { code: 'ContextTooLong', message };
}

/**
 * The tokens that the next call of the model takes: what the provider counted for the newest step that the model sees again,
 * with what came after it counted here; without such a step, or if the conversation before it has changed, all counted here.
 * Undefined: less than `threshold`.
 */
export async function windowInUse(
  { system, tools, messages }: JudgedStep['prompt'],
  reported: ReportedStep | null,
  threshold: number,
): Promise<number | undefined> {
  const at = messages.findIndex(({ id }) => id === reported?.message_id);
  const answer = messages[at];
  const isReported = reported !== null && reported.is_current && reported.tokens > 0 && answer !== undefined;
  const rest = isReported ? [partsAfter(answer, reported.steps), ...messages.slice(at + 1)] : messages;
  const most = isReported ? reported.tokens : Buffer.byteLength(system) + Buffer.byteLength(tools);
  if (most + mostTokens(rest) < threshold) return undefined;
  const base = isReported ? reported.tokens : (await countTokens(system)) + (await countTokens(tools));
  const tokens = base + (await messageTokens(rest));
  return tokens < threshold ? undefined : tokens;
}

/** What an answer has that its provider had not counted with its step number `steps`: tool outcomes, and later parts. */
function partsAfter({ parts }: UIMessage, steps: number): { parts: Part[] } {
  const starts = parts.flatMap(({ type }, at) => (type === 'step-start' ? [at] : []));
  const last = starts[steps - 1] ?? starts.at(-1) ?? 0;
  const next = starts[steps] ?? parts.length;
  const outcomes = parts.slice(last, next).flatMap((part): Part[] => {
    return 'toolCallId' in part ? [{ type: 'text', text: outcomeText(part) }] : [];
  });
  return { parts: [...outcomes, ...parts.slice(next)] };
}

/** Whether a compaction may free anything: two turns come before the message, or there are outputs to prune. */
export async function isCompactible({
  agent,
  messageId,
  noTurns,
  prompt: { messages },
}: Pick<JudgedStep, 'agent' | 'messageId' | 'noTurns' | 'prompt'>): Promise<boolean> {
  const at = messages.findIndex(({ id }) => id === messageId);
  const turns = messages.slice(0, Math.max(at, 0)).filter((each) => each.role === 'user' && !isSummary(each));
  return (turns.length >= 2 && !noTurns) || (await canPrune(messages, messageId, agent));
}

/** In a model's view a summary is a message of the user with the id of the message that has it. */
function isSummary({ parts }: UIMessage): boolean {
  const [part] = parts;
  return part?.type === 'text' && isShownSummary(part.text);
}

/**
 * Whether a prune of everything would take any output, also of the turn in progress, which has none before its first step. Counts the
 * newest ones, of each no more than it takes to know that it is large.
 *
 * @throws the signal's reason
 */
export async function canPrune(
  messages: readonly UIMessage[],
  messageId: string | null,
  agent: AgentDefinition,
  signal?: AbortSignal,
): Promise<boolean> {
  const { prune_min_tokens: min, prune_keep: keep } = compactionOf(agent);
  let large = 0;
  for (const { part, isProtected } of outputParts(messages, messageId, agent).toReversed()) {
    if (isProtected) continue;
    signal?.throwIfAborted();
    if ((await countTokens(outcomeText(part), min)) >= min) large += 1;
    if (large > keep) return true;
  }
  return false;
}

/** The outputs of tool calls in a model's view. */
export async function seenOutputs(
  messages: readonly UIMessage[],
  messageId: string | null,
  agent: AgentDefinition,
): Promise<SeenOutput[]> {
  const outputs: SeenOutput[] = [];
  for (const { part, ...output } of outputParts(messages, messageId, agent)) {
    outputs.push({ ...output, tool_call_id: part.toolCallId, tokens: await outcomeTokens(part) });
  }
  return outputs;
}

/** The parts with outputs. Those of the newest step of the turn in progress count as protected. */
function outputParts(messages: readonly UIMessage[], messageId: string | null, agent: AgentDefinition) {
  const kept = new Set(agent.tools.flatMap((tool) => (tool.protected === true ? [tool.name] : [])));
  const current = messageId === null ? Infinity : messages.findIndex(({ id }) => id === messageId);
  return messages.flatMap(({ parts }, at) => {
    const isCurrent = at > current;
    const newestStep = at === messages.length - 1 ? parts.findLastIndex(({ type }) => type === 'step-start') : Infinity;
    return parts.flatMap((part, index) => {
      if (!('toolCallId' in part) || part.state !== 'output-available') return [];
      return [{ part, isCurrent, isProtected: kept.has(getToolName(part)) || (isCurrent && index >= newestStep) }];
    });
  });
}
