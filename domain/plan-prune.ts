import type { CompactionSettings } from './compaction.ts';

/** The output of a tool call that the model sees. */
export interface SeenOutput {
  tool_call_id: string;
  tokens: number;
  /** Its tool is protected. */
  isProtected: boolean;
  /** Of the turn in progress. */
  isCurrent: boolean;
}

/**
 * Which outputs to prune, newest first, until `enough` tokens are freed: large ones of finished turns, and then of the turn
 * in progress, except those of protected tools and the newest large ones.
 *
 * @param outputs in the order of the conversation
 * @param enough Infinity: all that can be pruned
 */
export function planPrune(
  outputs: readonly SeenOutput[],
  enough: number,
  { prune_min_tokens, prune_keep }: Pick<CompactionSettings, 'prune_min_tokens' | 'prune_keep'>,
): { tool_call_id: string; tokens: number }[] {
  const large = outputs.filter(({ tokens, isProtected }) => tokens >= prune_min_tokens && !isProtected);
  const prunable = large.slice(0, Math.max(0, large.length - prune_keep)).toReversed();
  const pruned: { tool_call_id: string; tokens: number }[] = [];
  let freed = 0;
  for (const { tool_call_id, tokens } of [
    ...prunable.filter(({ isCurrent }) => !isCurrent),
    ...prunable.filter(({ isCurrent }) => isCurrent),
  ]) {
    if (freed >= enough) break;
    pruned.push({ tool_call_id, tokens });
    freed += tokens;
  }
  return pruned;
}
