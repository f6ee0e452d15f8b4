import { APICallError, InvalidArgumentError, LoadAPIKeyError, StreamProviderError, TypeValidationError } from 'ai';
import { describe, expect, it } from 'vitest';
import { PerdureError } from '../../domain/errors.ts';
import type { RefusalScope } from '../../domain/refusals.ts';
import { retryDelayMs, classifyProviderError, failureOfFinish } from './classify-provider-error.ts';

const SECRET = 'sk-secret-in-the-body';

function apiError(
  statusCode: number | undefined,
  body = '',
  responseHeaders: Record<string, string> = {},
): APICallError {
  const url = 'https://provider.example/v1';
  const options = { message: `${SECRET} ${body}`, url, requestBodyValues: { text: SECRET }, responseHeaders };
  return new APICallError({ ...options, responseBody: `${SECRET} ${body}`, ...(statusCode && { statusCode }) });
}

function answerOf(statusCode: number, responseBody: string): APICallError {
  return new APICallError({
    message: 'x',
    url: 'https://provider.example',
    requestBodyValues: {},
    statusCode,
    responseBody,
  });
}

describe('retryable', () => {
  it.each([
    [429, 'RateLimited'],
    [500, 'ProviderUnavailable'],
    [502, 'ProviderUnavailable'],
    [503, 'ProviderUnavailable'],
    [408, 'ProviderUnavailable'],
    [529, 'Overloaded'],
    [200, 'NetworkError'],
    [undefined, 'NetworkError'],
  ])('R6 status %s is %s', (status, code) => {
    expect(classifyProviderError(apiError(status))).toMatchObject({ kind: 'retryable', code });
  });

  it('R6 the delay is the provider’s Retry-After, in seconds, milliseconds or as a date', () => {
    const waitOf = (headers: Record<string, string>) => {
      const failure = classifyProviderError(apiError(429, '', headers));
      return failure.kind === 'retryable' ? failure.retryAfterMs : undefined;
    };
    expect(waitOf({ 'retry-after': '12' })).toBe(12_000);
    expect(waitOf({ 'retry-after-ms': '250.4', 'retry-after': '1' })).toBe(250);
    const date = waitOf({ 'retry-after': new Date(Date.now() + 30_000).toUTCString() });
    expect(date).toBeGreaterThan(28_000);
    expect(date).toBeLessThanOrEqual(30_000);
    expect(waitOf({ 'retry-after': new Date(0).toUTCString() })).toBe(0);
    expect(waitOf({ 'retry-after': '999999' })).toBe(3_600_000);
    for (const skew of [-7_200_000, 0, 7_200_000]) {
      const [now, then] = [0, 30_000].map((ms) => new Date(Date.now() + skew + ms).toUTCString());
      expect(waitOf({ date: now!, 'retry-after': then! }), `a provider ${skew} ms ahead`).toBe(30_000);
    }
    expect([waitOf({}), waitOf({ 'retry-after': 'soon' })]).toEqual([undefined, undefined]);
  });

  it('R6 errors inside a stream are classified by their type', () => {
    const inStream = (type: string, message = 'x') => classifyProviderError(new StreamProviderError({ type, message }));
    expect(inStream('overloaded_error')).toMatchObject({ code: 'Overloaded' });
    expect(inStream('rate_limit_error', 'Please try again in 1.5s.')).toMatchObject({
      code: 'RateLimited',
      retryAfterMs: 1_500,
    });
    expect(inStream('api_error')).toMatchObject({ code: 'ProviderUnavailable' });
    expect(inStream('authentication_error')).toMatchObject({ code: 'ProviderUnauthorized' });
    expect(inStream('invalid_request_error', 'prompt is too long: 9 tokens')).toMatchObject({ code: 'ContextTooLong' });
  });

  it('R6 the system’s network errors are classified as network errors', () => {
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    const failures = [reset, new TypeError('terminated'), new Error('outer', { cause: reset })];
    for (const error of [...failures, new DOMException('late', 'TimeoutError')]) {
      expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
    }
  });
});

describe('final', () => {
  it.each([
    [401, '', 'ProviderUnauthorized', /API key/],
    [403, '', 'ProviderUnauthorized', /API key/],
    [400, 'API key not valid. Please pass a valid API key.', 'ProviderUnauthorized', /API key/],
    [402, '', 'ProviderRejected', /billing/],
    [429, 'insufficient_quota', 'ProviderRejected', /billing/],
    [404, 'model not found', 'ProviderRejected', /name/],
    [400, 'nonsense', 'ProviderRejected', /refused the request/],
    [422, 'nonsense', 'ProviderRejected', /refused the request/],
    [400, 'context_length_exceeded', 'ContextTooLong', /compact/],
    [400, 'prompt is too long: 210000 tokens > 200000 maximum', 'ContextTooLong', /compact/],
    [
      400,
      'input length and `max_tokens` exceed context limit: 142251 + 64000 > 200000, decrease input length or `max_tokens`',
      'ContextTooLong',
      /compact/,
    ],
    [413, '', 'ContextTooLong', /compact/],
    [400, 'content_filter', 'ContentFilter', /edit the message/],
  ])('R6 %s %s is %s and says what to do', (status, body, code, advice) => {
    const failure = classifyProviderError(apiError(status, body));
    expect(failure).toMatchObject({ kind: 'final', code });
    expect(failure.kind === 'final' && failure.message).toMatch(advice);
  });

  it.each<[number, string | object, string, RefusalScope | undefined]>([
    [400, 'nonsense', 'ProviderRejected', 'files'],
    [404, 'No endpoints found that support image input', 'ProviderRejected', 'files'],
    [413, '', 'ContextTooLong', 'files'],
    [400, 'content_filter', 'ContentFilter', 'turn'],
    [403, 'Your input was flagged', 'ContentFilter', 'turn'],
    [403, 'Your account has been flagged for review', 'ProviderUnauthorized', undefined],
    [401, 'The key was flagged as leaked: content policy', 'ProviderUnauthorized', undefined],
    [400, 'Unsupported parameter: content_filter_results', 'ProviderRejected', 'files'],
    [400, "Invalid 'input[3].content': 'the PR was flagged' is no array", 'ProviderRejected', 'files'],
    [400, 'prompt is too long (content policy: see there)', 'ContextTooLong', undefined],
    [400, 'prompt is too long', 'ContextTooLong', undefined],
    [400, 'Your credit balance is too low', 'ProviderRejected', undefined],
    [400, 'acme/x is not a valid model ID', 'ProviderRejected', undefined],
    [400, 'API_KEY_INVALID', 'ProviderUnauthorized', undefined],
    [400, { error: { message: 'Unsupported value', param: 'temperature' } }, 'ProviderRejected', undefined],
    [400, { error: { message: 'Invalid value', param: 'messages.[0].content' } }, 'ProviderRejected', 'files'],
    [404, 'page not found', 'ProviderRejected', undefined],
  ])('R6 %s %j is %s; the provider refused: %s', (status, body, code, refused) => {
    const failure = classifyProviderError(answerOf(status, typeof body === 'string' ? body : JSON.stringify(body)));
    expect([failure.code, failure.refused]).toEqual([code, refused]);
  });

  it('R6 the request in an answer says nothing', () => {
    const detail = [{ loc: ['body', 'x'], msg: 'extra', input: 'invalid API key: the model does not exist' }];
    const failure = classifyProviderError(answerOf(400, JSON.stringify({ detail })));
    expect(failure).toMatchObject({ code: 'ProviderRejected', refused: 'files' });
  });

  it('R6 an option that the SDK refuses is no answer that cannot be read', () => {
    const cause = new TypeValidationError({ value: SECRET, cause: new Error('a word') });
    const argument = new InvalidArgumentError({ parameter: 'providerOptions', value: {}, message: 'x' });
    const error = Object.assign(argument, { cause });
    expect(classifyProviderError(error)).toMatchObject({ kind: 'final', code: 'Internal' });
    expect(classifyProviderError(cause)).toMatchObject({ kind: 'final', code: 'UnreadableAnswer' });
  });

  it('R6 an image at which the provider breaks is one that it refuses', () => {
    const failure = classifyProviderError(answerOf(500, 'image: unknown format'));
    expect(failure).toMatchObject({ kind: 'retryable', refused: 'files' });
  });

  it('R6 a missing key, an unknown model and an internal error have codes of their own', () => {
    expect(classifyProviderError(new LoadAPIKeyError({ message: 'no key' }))).toMatchObject({
      code: 'ProviderUnauthorized',
    });
    const unknown = new PerdureError('ModelNotConfigured', 'the model "x/y" is not configured; configured: a/b');
    expect(classifyProviderError(unknown)).toEqual({
      kind: 'final',
      code: 'ModelNotConfigured',
      message: `${unknown.message}. Choose another model, then have the message answered again.`,
    });
    expect(classifyProviderError(new TypeError('x is undefined'))).toMatchObject({ kind: 'final', code: 'Internal' });
    expect(classifyProviderError('odd')).toMatchObject({ kind: 'final', code: 'Internal' });
  });

  it('R6 a step ended by a content filter is a failure of the turn', () => {
    expect(failureOfFinish('content-filter')).toMatchObject({ kind: 'final', code: 'ContentFilter' });
    expect(['stop', 'length', 'tool-calls'].map(failureOfFinish)).toEqual([undefined, undefined, undefined]);
  });
});

it('Q3 failures contain no text of the provider or the request', () => {
  for (const status of [undefined, 400, 401, 402, 404, 413, 422, 429, 500, 529]) {
    for (const body of ['', 'context_length_exceeded', 'content_filter', 'insufficient_quota']) {
      expect(JSON.stringify(classifyProviderError(apiError(status, body)))).not.toContain(SECRET);
    }
  }
});

it('R6 the delay doubles with each attempt up to 30 s, with jitter, and is never shorter than Retry-After', () => {
  expect([1, 2, 3, 4, 5].map((attempt) => retryDelayMs(attempt, undefined, () => 0))).toEqual([
    500, 1_000, 2_000, 4_000, 8_000,
  ]);
  expect(retryDelayMs(50, undefined, () => 0)).toBe(30_000);
  expect(retryDelayMs(1, undefined, () => 1)).toBe(625);
  expect([retryDelayMs(9, 12_000, () => 0), retryDelayMs(1, 12_000, () => 1)]).toEqual([12_000, 14_000]);
});
