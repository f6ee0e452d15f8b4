import { APICallError, StreamProviderError } from 'ai';
import { expect, it } from 'vitest';
import { finishReport, providerReport } from './provider-report.ts';

const failed = (more: Partial<ConstructorParameters<typeof APICallError>[0]>) =>
  new APICallError({ message: 'said so', url: 'https://provider.example', requestBodyValues: {}, ...more });

it('R6 status, request id and error type are those of the provider’s answer', () => {
  const body = { type: 'error', error: { type: 'not_found_error', message: 'said so' }, request_id: 'req_body' };
  const answer = { statusCode: 404, responseBody: JSON.stringify(body) };
  const found = { status: 404, request_id: 'req_body', error_type: 'not_found_error', message: 'said so' };
  expect(providerReport(failed(answer))).toEqual(found);
  expect(providerReport(failed({ ...answer, responseHeaders: { 'request-id': 'req_head' } }))).toEqual({
    ...found,
    request_id: 'req_head',
  });
  const inStream = { type: 'overloaded_error', message: 'said so', data: { request_id: 'req_stream' } };
  expect(providerReport(new StreamProviderError(inStream))).toEqual({
    request_id: 'req_stream',
    error_type: 'overloaded_error',
    message: 'said so',
  });
});

it('R6 a failed connection has the system’s code, and no status of the answer that it cut', () => {
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  const message = 'said so: read ECONNRESET';
  expect(providerReport(failed({ statusCode: 200, cause: reset }))).toEqual({ error_type: 'ECONNRESET', message });
  expect(providerReport('nonsense')).toEqual({ message: '' });
});

it('R6 a finish reason is reported in the provider’s word, as a type if it looks like a name', () => {
  const word = 'insufficient_system_resource';
  expect(finishReport('other', word)).toEqual({ error_type: word, message: `finish reason "${word}"` });
  expect(finishReport('other', 'no more words')).toEqual({
    error_type: 'other',
    message: 'finish reason "no more words"',
  });
  expect(finishReport('error', undefined)).toEqual({ error_type: 'error', message: 'finish reason "error"' });
});

it('Q3 a type or request id that may be content is left out', () => {
  const odd = { error: { type: 'please ignore all of this', code: 'a'.repeat(65) }, request_id: 'my secret' };
  const answer = failed({
    statusCode: 400,
    responseBody: JSON.stringify(odd),
    responseHeaders: { 'x-request-id': 'a b' },
  });
  expect(providerReport(answer)).toEqual({ status: 400, message: 'said so' });
  expect(providerReport(failed({ statusCode: 502, responseBody: '<html>' }))).toEqual({
    status: 502,
    message: 'said so',
  });
});
