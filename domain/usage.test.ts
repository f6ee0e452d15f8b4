import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { addUsage, fromLanguageModelUsage, totalTokens, ZERO_USAGE } from './usage.ts';

describe('usage', () => {
  it('U1 subtracts cache counts from the input and reasoning from the output', () => {
    const usage = fromLanguageModelUsage({
      inputTokens: 1_000,
      outputTokens: 300,
      inputTokenDetails: { cacheReadTokens: 600, cacheWriteTokens: 150 },
      outputTokenDetails: { reasoningTokens: 120 },
    });
    expect(usage).toEqual({ input: 250, output: 180, reasoning: 120, cache_read: 600, cache_write: 150 });
  });

  it('U1 nothing reported is zero', () => {
    expect(fromLanguageModelUsage({})).toEqual(ZERO_USAGE);
    expect(fromLanguageModelUsage({ inputTokens: Number.NaN, outputTokens: undefined })).toEqual(ZERO_USAGE);
  });

  it('U1 the reported total decides if a server counts reasoning outside of its completion tokens', () => {
    const reported = {
      inputTokens: 10,
      outputTokens: 20,
      outputTokenDetails: { reasoningTokens: 70 },
      raw: { total_tokens: 100 },
    };
    expect(fromLanguageModelUsage(reported)).toEqual({ ...ZERO_USAGE, input: 10, output: 20, reasoning: 70 });
    const { outputTokenDetails: _, ...untold } = reported;
    expect(fromLanguageModelUsage(untold)).toEqual({ ...ZERO_USAGE, input: 10, output: 20, reasoning: 70 });
  });

  it('U1 cache writes that are only in the raw usage are subtracted from the input, once', () => {
    const reported = { inputTokens: 100, outputTokens: 5, inputTokenDetails: { cacheReadTokens: 30 } };
    const raw = { prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 60 } };
    const usage = { ...ZERO_USAGE, input: 10, output: 5, cache_read: 30, cache_write: 60 };
    expect(fromLanguageModelUsage({ ...reported, raw })).toEqual(usage);
    const read = { cacheReadTokens: 30, cacheWriteTokens: 60 };
    expect(fromLanguageModelUsage({ ...reported, inputTokenDetails: read, raw })).toEqual(usage);
    const none = { ...usage, input: 70, cache_write: 0 };
    for (const details of [null, undefined, 7, { cache_write_tokens: 'many' }, { cache_write_tokens: -1 }]) {
      expect(fromLanguageModelUsage({ ...reported, raw: { prompt_tokens_details: details } })).toEqual(none);
    }
  });

  it('U1 the five are never negative and their sum is the total of what was reported', () => {
    const tokens = fc.option(fc.nat(1_000_000), { nil: undefined });
    fc.assert(
      fc.property(tokens, tokens, tokens, tokens, tokens, (input, output, read, write, reasoning) => {
        const usage = fromLanguageModelUsage({
          inputTokens: input,
          outputTokens: output,
          inputTokenDetails: { cacheReadTokens: read, cacheWriteTokens: write },
          outputTokenDetails: { reasoningTokens: reasoning },
        });
        expect(Math.min(...Object.values(usage))).toBeGreaterThanOrEqual(0);
        expect(totalTokens(usage)).toBe((input ?? 0) + (output ?? 0));
      }),
      cases(),
    );
  });

  it('U1 sums are by number', () => {
    const one = { input: 1, output: 2, reasoning: 3, cache_read: 4, cache_write: 5 };
    expect(addUsage(one, addUsage(one, ZERO_USAGE))).toEqual({
      input: 2,
      output: 4,
      reasoning: 6,
      cache_read: 8,
      cache_write: 10,
    });
    expect(totalTokens(one)).toBe(15);
  });
});
