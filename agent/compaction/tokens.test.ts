import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { countTokens, messageTokens, mostTokens, outcomeTokens } from './tokens.ts';

describe('counting tokens', () => {
  it('U4 of known texts', async () => {
    expect(await countTokens('')).toBe(0);
    expect(await countTokens('The quick brown fox jumps over the lazy dog.')).toBe(10);
    // No control token, but text.
    expect(await countTokens('<|endoftext|>')).toBeGreaterThan(1);
  });

  it('U4 a long word is counted in pieces', async () => {
    const whole = 1_000_000 / 8;
    expect(Math.abs((await countTokens('a'.repeat(1_000_000))) / whole - 1)).toBeLessThan(0.01);
  });

  it('X9 of an output ends once it is known to be large', async () => {
    expect(await countTokens('word '.repeat(100_000), 20)).toBeLessThan(600);
  });

  it('U4 everything else gets a turn between many short texts, as within a long one', async () => {
    await countTokens('loads the encoding');
    let turns = 0;
    const other = () => {
      turns += 1;
      next = setImmediate(other);
    };
    let next = setImmediate(other);
    for (let n = 0; n < 200; n += 1) await countTokens('short');
    clearImmediate(next);
    expect(turns).toBeGreaterThan(3);
  });

  it('U4 of messages is never more than the bound that needs no counting', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 2_000 });
    const part = fc.oneof(
      text.map((content) => ({ type: 'text' as const, text: content })),
      fc.tuple(text, text).map(([input, output]) => {
        return {
          type: 'tool-read' as const,
          toolCallId: 'c',
          state: 'output-available' as const,
          input: { input },
          output,
        };
      }),
    );
    const property = fc.asyncProperty(fc.array(part), async (parts) => {
      const messages = [{ parts }];
      expect(await messageTokens(messages)).toBeLessThanOrEqual(mostTokens(messages));
    });
    await fc.assert(property, cases());
  });

  it('U4 a part of a view is counted once, and so is the outcome of a call', async () => {
    let reads = 0;
    const text = {
      type: 'text' as const,
      get text() {
        reads += 1;
        return 'The quick brown fox jumps over the lazy dog.';
      },
    };
    const call = {
      ...{ type: 'tool-read' as const, toolCallId: 'c', state: 'output-available' as const, input: {} },
      get output() {
        reads += 1;
        return 'The quick brown fox';
      },
    };
    const messages = [{ parts: [text, call] }];
    const tokens = await messageTokens(messages);
    const counting = reads;
    expect(await outcomeTokens(call)).toBe(4);
    expect(await messageTokens(messages)).toBe(tokens);
    expect(reads).toBe(counting);
    expect(await messageTokens([{ parts: [text] }, { parts: [call] }])).toBeGreaterThan(tokens);
    expect(reads).toBe(counting);
  });

  it('U4 an image counts by what providers take for it, not by its bytes', async () => {
    const url = `data:image/png;base64,${'A'.repeat(400_000)}`;
    const image = { type: 'file' as const, mediaType: 'image/png', url };
    expect(await messageTokens([{ parts: [image] }])).toBeLessThan(2_000);
  });
});
