import { expect, it } from 'vitest';
import { cachedSessions } from './cached-sessions.ts';

it('W1 the cache’s memory decides how many sessions a worker keeps', () => {
  expect(cachedSessions(256 * 1024 ** 2)).toBe(1_024);
  expect(cachedSessions(4 * 1024 ** 2)).toBe(16);
  expect(cachedSessions(1)).toBe(1);
});
