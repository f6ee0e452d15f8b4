// What is known of a model besides its name. Limits are in tokens.

/** What a model can take in. */
export const MODALITIES = ['text', 'image', 'pdf', 'audio', 'video'] as const;
export type Modality = (typeof MODALITIES)[number];

/** How much a model reasons before it answers: the AI SDK's `reasoning`, which each provider's package translates. */
export const REASONING_LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningLevel = (typeof REASONING_LEVELS)[number];

/** A model as callers see it, without anything of how it is called. */
export interface ModelInfo {
  /** `provider/model`. */
  model: string;
  /** Of input and output together. */
  context_limit: number;
  /** The longest input, which is less than `context_limit` for some models. */
  max_input: number;
  max_output: number;
  /** From 1, the cheapest; null: unknown. */
  tier: number | null;
  /** What it can take in; null: unknown, so anything is sent to it. */
  modalities: readonly Modality[] | null;
  /** Names of its variants, such as `high`. */
  variants: readonly string[];
}

/** The modality of a file by its media type; undefined: of none of them, such as an archive. */
export function modalityOf(mediaType: string): Modality | undefined {
  const [type = '', subtype = ''] = mediaType
    .toLowerCase()
    .split(/[/;]/)
    .map((word) => word.trim());
  if (type === 'application') return subtype === 'pdf' ? 'pdf' : undefined;
  return MODALITIES.find((modality) => modality === type);
}
