import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { growthOf, MOST_LINEAR } from '../tools/test-kit/growth.ts';
import { type Match, snippetOf } from './snippet.ts';

/** Where words are in a text, each with its number. */
function found(text: string, ...words: string[]): Match[] {
  const matches = words.flatMap((word, number) =>
    [...text.matchAll(new RegExp(word, 'gu'))].map(({ index }): Match => {
      const start = Array.from(text.slice(0, index)).length;
      return [start, start + Array.from(word).length, number];
    }),
  );
  return matches.toSorted(([one], [other]) => one - other);
}

const marked = ({ snippet, matches }: ReturnType<typeof snippetOf>) =>
  matches.map(({ start, end }) => snippet.slice(start, end));

describe('snippetOf', () => {
  it('T6 shows a short text as it is, with matches in units of UTF-16', () => {
    const text = '🦭 \u0002likes\u0003 “fish”\n and 🐟';
    expect(snippetOf(text, found(text, 'likes', '🐟'))).toEqual({
      snippet: text,
      matches: [
        { start: 4, end: 9 },
        { start: 23, end: 25 },
      ],
    });
    expect(snippetOf('', [])).toEqual({ snippet: '', matches: [] });
  });

  it('T6 marks what overlaps or touches once', () => {
    const overlapping: Match[] = [
      [0, 3, 1],
      [2, 3, 2],
      [3, 4, 3],
      [5, 6, 1],
    ];
    expect(marked(snippetOf('abcdefg', overlapping))).toEqual(['abcd', 'f']);
  });

  it('T6 shows the parts of a long text that have the most of the query, in their order', () => {
    const filler = 'so it went on and on, '.repeat(50);
    const text = `apples ${filler} pears and apples ${filler} quinces ${filler}`;
    const shown = snippetOf(text, found(text, 'apples', 'pears', 'quinces'));
    expect(marked(shown)).toEqual(['pears', 'apples', 'quinces']);
    expect(shown.snippet).toMatch(/^\w+.* pears and apples .* … .* quinces .*\w+,?$/);
    expect(shown.snippet.length).toBeLessThan(450);
    const beginning = snippetOf(text, []);
    expect(beginning.matches).toEqual([]);
    expect(text.startsWith(`${beginning.snippet} `)).toBe(true);
    expect(snippetOf('word '.repeat(60), []).snippet).toHaveLength(300);
    expect(snippetOf('word '.repeat(61), []).snippet.length).toBeLessThan(200);
  });

  it('T6 shows the first of the matches with the most different ones after it', () => {
    // Each word of five characters is another one.
    const words = Array.from({ length: 400 }, (_, n) => String(n).padStart(4, '0'));
    const text = words.join(' ');
    const one = fc.record({ word: fc.nat(399), length: fc.integer({ min: 1, max: 40 }), number: fc.nat(5) });
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 50 }), (all) => {
        const matches = all
          .map(({ word, length, number }): Match => [word * 5, Math.min(400, word + length) * 5 - 1, number])
          .toSorted(([start, end], [otherStart, otherEnd]) => start - otherStart || end - otherEnd);
        const numbersFrom = (at: number) => {
          const after = matches.slice(at);
          const beyond = after.findIndex(([, end]) => end > matches[at]![0] + 140);
          return new Set((beyond < 0 ? after : after.slice(0, beyond)).map(([, , number]) => number)).size;
        };
        const counts = matches.map((_, at) => numbersFrom(at));
        const [start, end] = matches[counts.indexOf(Math.max(...counts))]!;
        const shown = snippetOf(text, matches);
        expect(marked(shown).some((mark) => mark.includes(text.slice(start, end)))).toBe(true);
      }),
      cases(),
    );
  });

  it('T6 takes time that grows with the matches, and not faster', async () => {
    const shown = (size: number) => {
      const matches = Array.from({ length: size }, (_, n): Match => [Math.floor(n / 8), Math.floor(n / 8) + 1, n % 8]);
      snippetOf('a'.repeat(size / 8), matches);
    };
    expect(await growthOf(shown, 8_000)).toBeLessThan(MOST_LINEAR);
  });

  it('T6 shows text between marks whatever the text and the matches are', () => {
    const character = fc.constantFrom('a', 'b', ' ', '猫', '🦭', '\n', '. ');
    const texts = fc.array(character, { maxLength: 900 }).map((all) => all.join(''));
    fc.assert(
      fc.property(texts, fc.uniqueArray(fc.constantFrom('a', 'ab', '猫🦭', 'b a'), { minLength: 1 }), (text, words) => {
        const matches = found(text, ...words);
        const shown = snippetOf(text, matches);
        for (const piece of shown.snippet.split(' … ')) expect(text).toContain(piece);
        expect(shown.snippet.length).toBeLessThan(1_000);
        expect(shown.matches.length > 0).toBe(matches.length > 0);
        let end = -1;
        for (const each of shown.matches) {
          expect(each.start).toBeGreaterThan(end);
          end = each.end;
          expect(shown.snippet.slice(each.start, each.end)).toMatch(new RegExp(words.join('|'), 'u'));
        }
      }),
      cases(),
    );
  });
});
