import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { cleanJson, cleanJsonText, cleanText, type Cleaner, headOf, JsonTextCleaner, TextCleaner } from './text.ts';

/** Any sequence of UTF-16 units, with the special ones often. */
const units = fc
  .array(fc.oneof(fc.constantFrom(0, 0xd83d, 0xde00, 0x5c, 0x75, 0x41), fc.integer({ min: 0, max: 0xffff })))
  .map((codes) => String.fromCharCode(...codes));

/** Text made of pieces of JSON escapes. */
const escapes = fc
  .array(
    fc.constantFrom('\\', '\\\\', 'u', 'd83d', 'de00', '0000', 'dc00', '\\ud83d', '\\ude00', '\\u0000', '"', 'D8', 'x'),
  )
  .map((pieces) => pieces.join(''));

function inPieces(cleaner: Cleaner, text: string, cuts: readonly number[]): string {
  const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].toSorted((a, b) => a - b);
  const pieces = [0, ...at].map((start, index) => text.slice(start, at[index] ?? text.length));
  return pieces.map((piece) => cleaner.push(piece)).join('') + cleaner.end();
}

const cuts = fc.array(fc.nat());

describe('clean text', () => {
  it('T5 replaces U+0000 and lone surrogates by U+FFFD, and nothing else', () => {
    expect(cleanText('a\0b\uD83Dc\uDE00d😀')).toBe('a\uFFFDb\uFFFDc\uFFFDd😀');
  });

  it('T5 keeps a surrogate pair that is split over two deltas', () => {
    const cleaner = new TextCleaner();
    expect([cleaner.push('a\uD83D'), cleaner.push('\uDE00b'), cleaner.end()]).toEqual(['a', '😀b', '']);
  });

  it('T5 replaces a high surrogate at the end by U+FFFD', () => {
    const cleaner = new TextCleaner();
    expect([cleaner.push('a\uD83D'), cleaner.push(''), cleaner.end()]).toEqual(['a', '', '\uFFFD']);
  });

  it('T5 cleans a text to the same length, in any pieces to the same text', () => {
    fc.assert(
      fc.property(units, cuts, (text, at) => {
        const clean = inPieces(new TextCleaner(), text, at);
        expect(clean).toBe(cleanText(text));
        expect(clean).toHaveLength(text.length);
        expect(clean.isWellFormed() && !clean.includes('\0')).toBe(true);
      }),
      cases(),
    );
  });
});

describe('clean JSON text', () => {
  it('T5 replaces escapes that a parser would turn into U+0000 or a lone surrogate', () => {
    expect(cleanJsonText(String.raw`{"a\u0000":"\ud83d\ude00 \uD83D \uDE00 \\u0000 \n"}`)).toBe(
      String.raw`{"a\ufffd":"\ud83d\ude00 \ufffd \ufffd \\u0000 \n"}`,
    );
  });

  it('T5 cleans JSON to the same length, in any pieces to the same text', () => {
    fc.assert(
      fc.property(fc.oneof(escapes, units), cuts, (text, at) => {
        expect(inPieces(new JsonTextCleaner(), text, at)).toBe(cleanJsonText(text));
        expect(cleanJsonText(text)).toHaveLength(text.length);
      }),
      { ...cases(1_000), examples: [[String.raw`\uD8`, []]] },
    );
  });

  it('T5 leaves nothing in a document that Postgres rejects', () => {
    fc.assert(
      fc.property(fc.jsonValue(), units, units, (value, key, text) => {
        const clean = JSON.stringify(cleanJson({ value, [key]: [text] }));
        // A backslash of the text itself is written as two, and no escape.
        expect(clean.replaceAll('\\\\', '')).not.toMatch(/\\u0000|\\ud[89a-f]/i);
        expect(cleanJson(cleanJson(value))).toEqual(cleanJson(value));
      }),
      { ...cases(), examples: [[[{ [String.raw`\UdA`]: '' }], '', '']] },
    );
  });

  it('T5 turns undefined into null and rejects a cycle', () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(cleanJson(undefined)).toBeNull();
    expect(() => cleanJson(cycle)).toThrow(TypeError);
  });
});

it('R7 truncation to a number of bytes never cuts a character', () => {
  expect([headOf('aé😀', 1), headOf('aé😀', 2), headOf('aé😀', 3), headOf('aé😀', 6), headOf('aé😀', 7)]).toEqual([
    'a',
    'a',
    'aé',
    'aé',
    'aé😀',
  ]);
});
