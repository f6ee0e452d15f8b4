import { expect, it } from 'vitest';
import { isTemporary } from './failures.ts';

it.each([
  ['a shutdown of Postgres', '57P01', true],
  ['a full disk', '53100', true],
  ['a broken pipe', 'EPIPE', true],
  ['a refused connection', 'ECONNREFUSED', true],
  ['a unique key', '23505', false],
  ['an unknown function', '42883', false],
])('W1 %s (%s) is retried: %s', (_error, code, expected) => {
  expect(isTemporary(Object.assign(new Error('no'), { code }))).toBe(expected);
});
