import { describe, expect, it } from 'vitest';
import { costWords, durationWords, stretchOf } from './amount-words.ts';

describe('the words of the console', () => {
  it.each([
    [0, '0 ms'],
    [999.4, '999 ms'],
    [1_000, '1.0 s'],
    [59_949, '59.9 s'],
    [59_950, '1 min 0 s'],
    [185_000, '3 min 5 s'],
  ])('W6 %d milliseconds are %s', (ms, words) => {
    expect(durationWords(ms)).toBe(words);
  });

  it.each([
    [null, '–'],
    [0, '$0.00'],
    [0.000_123_4, '$0.000123'],
    [0.25, '$0.25'],
    [12, '$12.00'],
  ])('W6 a cost of %j is %s', (usd, words) => {
    expect(costWords(usd)).toBe(words);
  });

  it('W6 a bar never leaves its turn, whatever the clocks say', () => {
    const turn = { from: 10_000, to: 20_000 };
    const at = (ms: number, end: number) => stretchOf({ ms, ended_at: new Date(end).toISOString() }, turn);
    expect(at(5_000, 20_000)).toEqual({ from: 0.5, length: 0.5 });
    expect(at(50_000, 15_000)).toEqual({ from: 0, length: 0.5 });
    expect(at(1_000, 30_000)).toEqual({ from: 1, length: 0 });
    expect(stretchOf({ ms: 5, ended_at: new Date(0).toISOString() }, { from: 0, to: 0 })).toEqual({
      from: 0,
      length: 0,
    });
  });
});
