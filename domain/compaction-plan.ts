import type { CompactionSettings } from './compaction.ts';

/** A visible message with what it takes of the model's window. */
export interface SizedMessage {
  id: string;
  role: string;
  tokens: number;
  /** Of a summary: the turns that it stands for. */
  turns?: number | undefined;
}

/** What a compaction does. */
export interface CompactionPlan {
  /** Messages to summarize, in order. */
  summarized: string[];
  /** Turns among them, and those that a summary among them stands for. */
  turns: number;
  /** The first message that stays. */
  tailStart: string;
  /** Of the turn that stays only the message and the final text do. */
  isSplit: boolean;
  /** The newest turns together are larger than their share, so only one stays. */
  isOverBudget: boolean;
}

/**
 * Which messages a compaction summarizes; undefined: there is nothing before the turns that stay.
 *
 * @param messages the visible ones, in order
 * @param current the message that is being answered; null: none, then it is the last one if that has no answer, as after a
 * rewind. It stays, like all after it, and is not one of the turns
 * @param usable the usable window of the model that the next turn uses, in tokens
 */
export function planCompaction(
  messages: readonly SizedMessage[],
  current: string | null,
  usable: number,
  settings: CompactionSettings,
): CompactionPlan | undefined {
  const end = messages.findIndex(({ id }) => id === (current ?? unanswered(messages)));
  const earlier = end < 0 ? messages : messages.slice(0, end);
  const turns = turnsOf(earlier);
  const budget = settings.tail_budget_pct * usable;
  const wanted = turns.slice(-settings.tail_turns);
  const isOverBudget = sizeOf(wanted) > budget && wanted.length > 1;
  const tail = isOverBudget ? wanted.slice(-1) : wanted;
  const [first] = tail;
  const start = first?.[0]?.id;
  if (start === undefined) return undefined;
  const before = earlier.slice(
    0,
    earlier.findIndex(({ id }) => id === start),
  );
  const count = turns.length - tail.length;
  if (count === 0) return undefined;
  const isSplit = settings.split_last_turn && tail.length === 1 && sizeOf(tail) > budget;
  return {
    summarized: before.map(({ id }) => id),
    turns: before.reduce((sum, message) => sum + (message.turns ?? 0), count),
    tailStart: start,
    isOverBudget,
    isSplit,
  };
}

/** The turns: user messages with what follows each. What comes before the first is a summary. */
function turnsOf(messages: readonly SizedMessage[]): SizedMessage[][] {
  const turns: SizedMessage[][] = [];
  for (const message of messages) {
    if (message.role === 'user') turns.push([message]);
    else turns.at(-1)?.push(message);
  }
  return turns;
}

/** The message of the last turn, if the model sees nothing after it. */
function unanswered(messages: readonly SizedMessage[]): string | undefined {
  const last = messages.findLastIndex(({ role, tokens }) => role === 'user' || tokens > 0);
  return messages[last]?.role === 'user' ? messages[last].id : undefined;
}

function sizeOf(turns: readonly SizedMessage[][]): number {
  return turns.flat().reduce((sum, { tokens }) => sum + tokens, 0);
}
