import { expect, it } from 'vitest';
import { isTemporary } from './is-temporary.ts';

const coded = (code: string) => Object.assign(new Error('no'), { code });

it.each([
  ['a shutdown of Postgres', coded('57P01'), true],
  ['a statement time-out', coded('57014'), true],
  ['a lock time-out', coded('55P03'), true],
  ['a full disk', coded('53100'), true],
  ['a plan that a migration made invalid', coded('0A000'), true],
  ['a broken pipe', coded('EPIPE'), true],
  ['a refused connection', coded('ECONNREFUSED'), true],
  ['a network that is down', coded('ENETUNREACH'), true],
  ['a process without free file descriptors', coded('EMFILE'), true],
  ['a missing file', coded('ENOENT'), false],
  ['a refusal by every address', new AggregateError([coded('ECONNREFUSED')]), true],
  ['a query time-out', new Error('Query read timeout'), true],
  ['a lost connection', new Error('Connection terminated unexpectedly'), true],
  ['a unique key', coded('23505'), false],
  ['an unknown function', coded('42883'), false],
  ['a syntax error', coded('42601'), false],
  ['an error of the code', new TypeError('x is not a function'), false],
])('Q1 W1 %s (%s) is temporary: %s', (_name, error, expected) => {
  expect(isTemporary(error)).toBe(expected);
});
