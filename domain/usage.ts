/**
 * The tokens of a model call or of several: five disjoint numbers whose sum is the provider's total. `input` is without
 * both cache counts, `output` without reasoning.
 */
export type Usage = {
  input: number;
  output: number;
  reasoning: number;
  cache_read: number;
  cache_write: number;
};

export const ZERO_USAGE: Usage = Object.freeze({ input: 0, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 });

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    reasoning: a.reasoning + b.reasoning,
    cache_read: a.cache_read + b.cache_read,
    cache_write: a.cache_write + b.cache_write,
  };
}

/** All five together. */
export function totalTokens(usage: Usage): number {
  return usage.input + usage.output + usage.reasoning + usage.cache_read + usage.cache_write;
}

/** What counts towards a turn's limit of tokens: all but what the provider had in its cache. */
export function limitedTokens(usage: Usage): number {
  return totalTokens(usage) - usage.cache_read;
}

/** The fields of the AI SDK's LanguageModelUsage that are read here. `inputTokens` and `outputTokens` are totals. */
interface ReportedUsage {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  inputTokenDetails?: { cacheReadTokens?: number | undefined; cacheWriteTokens?: number | undefined } | undefined;
  outputTokenDetails?: { reasoningTokens?: number | undefined } | undefined;
  raw?: { [key: string]: unknown } | undefined;
}

/**
 * The five numbers, from what the AI SDK's step-finished callback reports. Missing numbers are 0. Some compatible servers
 * do not include reasoning in the completion tokens; this shows in their `total_tokens`, which is then used.
 */
export function fromLanguageModelUsage(reported: ReportedUsage): Usage {
  const prompt = count(reported.inputTokens);
  const completion = count(reported.outputTokens);
  const beside = Math.max(0, count(reported.raw?.['total_tokens']) - prompt - completion);
  const cache_read = Math.min(count(reported.inputTokenDetails?.cacheReadTokens), prompt);
  const written = count(reported.inputTokenDetails?.cacheWriteTokens) || cacheWritesOf(reported.raw);
  const cache_write = Math.min(written, prompt - cache_read);
  const reasoning = Math.min(count(reported.outputTokenDetails?.reasoningTokens), completion + beside);
  const within = Math.max(0, reasoning - beside);
  return {
    input: prompt - cache_read - cache_write,
    output: completion - within,
    reasoning: within + beside,
    cache_read,
    cache_write,
  };
}

/** OpenRouter and servers like it report cache writes in a field that the SDK's provider passes on unread. */
function cacheWritesOf(raw: ReportedUsage['raw']): number {
  const details = raw?.['prompt_tokens_details'] as { cache_write_tokens?: unknown } | null | undefined;
  return count(details?.cache_write_tokens);
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.trunc(value) : 0;
}
