import { expect, it } from 'vitest';
import { isUnavailable } from './unavailable.ts';

it.each([
  ['a query times out', new Error('Query read timeout')],
  [
    'a statement times out',
    Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }),
  ],
  ['a lock times out', Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })],
  ['it refuses', Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })],
  ['the network is down', Object.assign(new Error('connect ENETUNREACH'), { code: 'ENETUNREACH' })],
  ['every address refuses the connection', new AggregateError([Object.assign(new Error(), { code: 'ECONNREFUSED' })])],
])('Q1 Postgres is unavailable when %s', (_what, error) => {
  expect(isUnavailable(error)).toBe(true);
});

it('Q1 an invalid statement is no outage', () => {
  expect(isUnavailable(Object.assign(new Error('syntax error'), { code: '42601' }))).toBe(false);
  expect(isUnavailable(new TypeError('x is not a function'))).toBe(false);
});
