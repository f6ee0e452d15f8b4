import { z } from 'zod';
import {
  type CompactionSettings,
  DEFAULT_COMPACTION,
  type ModelLimits,
  usableTokens,
} from '../../domain/compaction.ts';
import { definedFields } from './defined-fields.ts';

const share = z.number().gt(0, 'expected a share above 0 and up to 1').max(1, 'expected a share above 0 and up to 1');
const count = z.int().min(0);

/** The field `compaction` of an agent: what is missing has its default. */
export const compactionSchema = z.strictObject({
  auto: z.boolean().optional(),
  compact_at: share.optional(),
  reserve_tokens: count.optional(),
  tail_turns: z.int().min(1).max(1_000).optional(),
  tail_budget_pct: share.optional(),
  split_last_turn: z.boolean().optional(),
  prune_at: share.optional(),
  /** The note in place of an output is almost as long as the least. */
  prune_min_tokens: z.int().min(20).optional(),
  prune_keep: count.max(1_000).optional(),
  retry_on_transient: count.max(10).optional(),
  summarizer_timeout: z.int().min(100).max(600_000).optional(),
  summarizer: z.string().optional(),
  smart_recovery: z
    .strictObject({
      prune_tool_outputs: z.boolean().optional(),
      chunked_summarize: z.boolean().optional(),
      drop_middle: z.boolean().optional(),
    })
    .optional(),
});

/** An agent's settings, with defaults for unset ones. */
export function compactionOf({
  compaction = {},
  max_output_tokens,
}: {
  compaction?: z.infer<typeof compactionSchema> | undefined;
  max_output_tokens?: number | undefined;
}): CompactionSettings {
  const { smart_recovery, ...given } = compaction;
  return {
    ...DEFAULT_COMPACTION,
    ...definedFields({ ...given, max_output_tokens }),
    smart_recovery: { ...DEFAULT_COMPACTION.smart_recovery, ...definedFields(smart_recovery ?? {}) },
  };
}

/** The tokens at which an agent's conversation is compacted before a step with a model; with `auto: false`, its longest input. */
export function windowLimit(model: ModelLimits, agent: Parameters<typeof compactionOf>[0]): number {
  const settings = compactionOf(agent);
  return settings.auto ? Math.ceil(settings.compact_at * usableTokens(model, settings)) : model.maxInput;
}
