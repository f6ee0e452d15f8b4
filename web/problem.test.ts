import { describe, expect, it } from 'vitest';
import { ERROR_STATUS, type ErrorCode } from '../domain/errors.ts';
import { isRefusal, problemOf, reasonOf, wordsOf } from './problem.ts';

/** As the page gets it. */
const problem = (code: ErrorCode) =>
  problemOf(ERROR_STATUS[code], JSON.stringify({ code, detail: 'the server says no', status: ERROR_STATUS[code] }));

describe('what the server refuses', () => {
  it.each(Object.keys(ERROR_STATUS) as ErrorCode[])('H2 is told in two sentences: %s', (code) => {
    expect(wordsOf(problem(code))).toMatch(/^[A-Z][^.]+\. [A-Z][^.]+\.( [A-Z][^.]+\.)?$/);
  });

  it.each([
    [400, '', 'The server cannot do that right now. Try again in a moment.'],
    [401, '<html>', 'The server wants to know who you are. Enter a token above.'],
    [502, '<html>Bad gateway', 'The server cannot do that right now. Try again in a moment.'],
    [503, '{"code":"Odd","detail":"x"}', 'The server cannot do that right now. Try again in a moment.'],
    [413, '{"code":"TooLarge","detail":"too long"}', 'Too long. Make it shorter.'],
  ])('H2 is told also where something in between answers: %s %s', (status, body, words) => {
    expect(wordsOf(problemOf(status, body))).toBe(words);
  });
});

describe('a message', () => {
  const sentAgain: ErrorCode[] = ['Unauthorized', 'TooMany', 'Internal', 'Unavailable'];

  it('W7 is sent again after what may pass, and not after a refusal', () => {
    const codes = Object.keys(ERROR_STATUS) as ErrorCode[];
    expect(codes.filter((code) => !isRefusal(problem(code)))).toEqual(sentAgain);
    expect(isRefusal(new TypeError('Failed to fetch'))).toBe(false);
  });

  it('W7 that waits says that it is sent again', () => {
    const again = 'It is sent again until it arrives.';
    expect(reasonOf(problem('TooMany'))).toBe(`The server says no. ${again}`);
    expect(reasonOf(problem('Unavailable'))).toBe(`The server cannot do that right now. ${again}`);
    expect(reasonOf(new TypeError('Failed to fetch'))).toMatch(new RegExp(`(reached|offline)\\. ${again}$`));
    expect(reasonOf(problem('TooLarge'))).toBe('The server says no. Make it shorter.');
  });
});
