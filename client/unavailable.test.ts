import { expect, it } from 'vitest';
import { isUnavailable } from './unavailable.ts';

it.each([
  ['its words stay out for too long', new Error('Query read timeout')],
  [
    'it ends the statement',
    Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }),
  ],
  ['a lock is not had', Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })],
  ['it refuses', Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })],
  ['it refuses at every address', new AggregateError([Object.assign(new Error(), { code: 'ECONNREFUSED' })])],
])('Q1 Postgres cannot serve now where %s', (_what, error) => {
  expect(isUnavailable(error)).toBe(true);
});

it('Q1 what it does not like about a statement is no outage', () => {
  expect(isUnavailable(Object.assign(new Error('syntax error'), { code: '42601' }))).toBe(false);
  expect(isUnavailable(new TypeError('x is not a function'))).toBe(false);
});
