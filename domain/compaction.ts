// Keeping a conversation within the model's context window: settings, and the parts that record what was done.

/** Settings of an agent's `compaction`, and its limit of an answer. Shares are of the usable window, times in milliseconds. */
export interface CompactionSettings {
  /**
   * False: not at `compact_at`; still by hand, before a model with a smaller window, and when the provider refuses the
   * conversation as too long.
   */
  auto: boolean;
  /** The share at which a conversation is compacted. */
  compact_at: number;
  /** Tokens kept free for the next answer; default: 20,000, or the model's largest output if that is less. */
  reserve_tokens?: number | undefined;
  /** The agent's own: the provider is told of it. */
  max_output_tokens?: number | undefined;
  /** The newest turns that stay as they are. */
  tail_turns: number;
  /** The share that they may take; beyond it only the newest one stays. */
  tail_budget_pct: number;
  /** If that one is still beyond it, only its message and its final text stay. */
  split_last_turn: boolean;
  /** The share at which large tool outputs are pruned; unset: only by hand, and before a compaction. */
  prune_at?: number | undefined;
  /** Tool outputs below this many tokens are not pruned. */
  prune_min_tokens: number;
  /** The newest large tool outputs that are never pruned. */
  prune_keep: number;
  /** Attempts after the first one if the summarizer's provider fails temporarily. */
  retry_on_transient: number;
  /** How long a turn waits for a summary: for all calls of it, in parts and repeated. */
  summarizer_timeout: number;
  /** Id of the agent that writes summaries; default: a built-in one. */
  summarizer?: string | undefined;
  /** What to try, in this order, if the history is longer than the summarizer can take. */
  smart_recovery: { prune_tool_outputs: boolean; chunked_summarize: boolean; drop_middle: boolean };
}

export const DEFAULT_COMPACTION: CompactionSettings = Object.freeze({
  auto: true,
  compact_at: 1,
  tail_turns: 2,
  tail_budget_pct: 0.25,
  split_last_turn: false,
  prune_min_tokens: 500,
  prune_keep: 5,
  retry_on_transient: 2,
  summarizer_timeout: 30_000,
  smart_recovery: { prune_tool_outputs: true, chunked_summarize: true, drop_middle: true },
});

/** Limits of a model, in tokens. */
export interface ModelLimits {
  /** Of input and output together. */
  contextLimit: number;
  /** The longest input. */
  maxInput: number;
  maxOutput: number;
  /** As in `ResolvedModel`: how long an answer may be, as the provider is told, unless the agent has a limit. */
  ownMaxOutput?: number;
}

const MOST_RESERVED = 20_000;

/** The part of a model's context window that a conversation may fill: the rest is for the answer. */
export function usableTokens(
  { contextLimit, maxInput, maxOutput, ownMaxOutput = 0 }: ModelLimits,
  {
    reserve_tokens,
    max_output_tokens = ownMaxOutput,
  }: Pick<CompactionSettings, 'reserve_tokens' | 'max_output_tokens'>,
): number {
  // Providers refuse a request whose input and longest answer are longer than the window together.
  const reserve = Math.max(max_output_tokens, reserve_tokens ?? Math.min(MOST_RESERVED, maxOutput));
  // A reserve for a large model must not leave a small one without a window.
  return Math.min(maxInput, Math.max(contextLimit - reserve, Math.ceil(contextLimit / 2)));
}

/** Why a conversation is compacted: it fills the window, the provider refused it as too long, or its user asked. */
export type CompactionReason = 'window' | 'overflow' | 'prune' | 'compaction';

/** What a `data-compaction` part of a summary contains. */
export interface CompactionData {
  /** Markdown. */
  summary: string;
  /** The first message that stays as it is. */
  tail_start_id: string;
  auto: boolean;
  summary_tokens: number;
  /** Turns that it stands for, with those of an earlier summary that it replaces. */
  turns: number;
  /** Of the first turn that stays, the model sees the message and the final text only. */
  split?: true;
}

/** What a `data-prune` part contains: tool outputs that the model no longer sees. */
export interface PruneData {
  outputs: { tool_call_id: string; tokens: number }[];
  tokens: number;
  auto: boolean;
}

/** The part of a message's parts that is a summary. */
export function summaryOf(parts: readonly { type: string }[]): CompactionData | undefined {
  const part = parts.find(({ type }) => type === 'data-compaction');
  return part && (part as unknown as { data: CompactionData }).data;
}

const SUMMARY_FOLLOWS = 'The earlier part of this conversation was replaced by this summary of it:';
/** The next message of the user may be sent in the same text. */
const SUMMARY_ENDS = '[End of the summary.]';

/** What the model sees in place of summarized messages. */
export function shownSummary(summary: string): string {
  return `${SUMMARY_FOLLOWS}\n\n${summary}\n\n${SUMMARY_ENDS}`;
}

/** Whether a text is what the model sees of a summary. */
export function isShownSummary(text: string): boolean {
  return text.startsWith(SUMMARY_FOLLOWS);
}

/** What the model sees in place of a pruned output. */
export function prunedStub(tokens: number): string {
  return `<output pruned, ${tokens} tokens>`;
}
