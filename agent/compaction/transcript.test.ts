import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { countTokens } from './tokens.ts';
import { chunksOf } from './transcript.ts';

describe('cutting a history into chunks', () => {
  it('X8 ends at single characters, also those of several tokens', async () => {
    expect(await countTokens('ཀ')).toBeGreaterThan(1);
    expect(await chunksOf(['ཀ', 'ab😀ཀ'], 1)).toEqual(['ཀ', 'ab', '😀', 'ཀ']);
  });

  it('X8 loses no text, and cuts no character in two', async () => {
    const texts = fc.array(fc.string({ unit: 'binary', maxLength: 200 }));
    const property = fc.asyncProperty(texts, fc.integer({ min: 1, max: 20 }), async (given, most) => {
      const chunks = await chunksOf(given, most);
      expect(chunks.join('').replaceAll('\n\n', '')).toBe(given.join('').replaceAll('\n\n', ''));
      for (const chunk of chunks) expect(chunk.isWellFormed()).toBe(true);
    });
    await fc.assert(property, cases());
  });
});
