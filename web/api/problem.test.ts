import { describe, expect, it } from 'vitest';
import { ERROR_STATUS, type ErrorCode } from '../../domain/errors.ts';
import { isRefusal, problemOfResponse, retryReason, wordsOf } from './problem.ts';

/** As the page receives it. */
const problem = (code: ErrorCode) =>
  problemOfResponse(
    ERROR_STATUS[code],
    JSON.stringify({ code, detail: 'the server says no', status: ERROR_STATUS[code] }),
  );

describe('a refusal by the server', () => {
  it.each(Object.keys(ERROR_STATUS) as ErrorCode[])('H2 is shown in two sentences: %s', (code) => {
    expect(wordsOf(problem(code))).toMatch(/^[A-Z][^.]+\. [A-Z][^.]+\.( [A-Z][^.]+\.)?$/);
  });

  it.each([
    [400, '', 'The server cannot do that right now. Try again in a moment.'],
    [401, '<html>', 'The server requires a token. Enter a token above.'],
    [502, '<html>Bad gateway', 'The server cannot do that right now. Try again in a moment.'],
    [503, '{"code":"Odd","detail":"x"}', 'The server cannot do that right now. Try again in a moment.'],
    [413, '{"code":"TooLarge","detail":"too long"}', 'Too long. Make it shorter.'],
  ])('H2 is shown also for responses of a proxy: %s %s', (status, body, words) => {
    expect(wordsOf(problemOfResponse(status, body))).toBe(words);
  });
});

describe('a message', () => {
  const sentAgain: ErrorCode[] = ['Unauthorized', 'TooMany', 'Internal', 'Unavailable'];

  it('W7 is retried after transient errors, and not after a refusal', () => {
    const codes = Object.keys(ERROR_STATUS) as ErrorCode[];
    expect(codes.filter((code) => !isRefusal(problem(code)))).toEqual(sentAgain);
    expect(isRefusal(new TypeError('Failed to fetch'))).toBe(false);
  });

  it('W7 that waits shows that it will be sent again', () => {
    const again = 'It will be sent again until it arrives.';
    expect(retryReason(problem('TooMany'))).toBe(`The server says no. ${again}`);
    expect(retryReason(problem('Unavailable'))).toBe(`The server cannot do that right now. ${again}`);
    expect(retryReason(new TypeError('Failed to fetch'))).toMatch(new RegExp(`(reached|offline)\\. ${again}$`));
    expect(retryReason(problem('TooLarge'))).toBe('The server says no. Make it shorter.');
  });
});
