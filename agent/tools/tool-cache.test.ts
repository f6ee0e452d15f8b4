import { expect, it } from 'vitest';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { memorySession, memoryToolContext } from '../memory/memory-session.ts';

const session = memorySession({ agent: siteBuilder, workspaceRoot: '.' });
const cacheOf = (tool: string) =>
  memoryToolContext(session, { tool, toolCallId: 'c', signal: new AbortController().signal, progress: () => {} }).ctx
    .cache;

it('S10 each tool and scope has a cache of its own', async () => {
  const cache = cacheOf('one');
  await cache.set('key', { a: 1 }, { ttlMs: 60_000 });
  await cache.set('key', 2, { ttlMs: 60_000, scope: 'user' });
  expect(await cacheOf('one').get('key')).toEqual({ a: 1 });
  expect(await cache.get('key', { scope: 'user' })).toBe(2);
  expect([await cache.get('key', { scope: 'app' }), await cacheOf('two').get('key')]).toEqual([undefined, undefined]);
});

it('S10 a result that is cached in memory is not found once its time to live is over', async () => {
  const cache = cacheOf('three');
  await cache.set('long', 1, { ttlMs: 60_000 });
  await cache.set('short', 2, { ttlMs: 1 });
  await expect.poll(() => cache.get('short')).toBeUndefined();
  expect(await cache.get('long')).toBe(1);
});

it.each([
  ['key', 1, { ttlMs: 0 }, 'cache: ttlMs: expected more than 0'],
  ['key', 1, { ttlMs: Number.NaN }, 'cache: ttlMs: expected more than 0'],
  ['key', 1, { ttlMs: 31 * 86_400_000 }, 'cache: ttlMs: expected more than 0 and at most 2592000000 ms'],
  ['', 1, { ttlMs: 1 }, 'cache: a key has 1 to 256 bytes of text'],
  ['key', { a: [1n] }, { ttlMs: 1 }, 'cache["key"].a[0]: expected a value that JSON can carry, not a bigint'],
  ['key', 'x'.repeat(1024 ** 2), { ttlMs: 1 }, 'cache["key"]: expected at most 1048576 bytes as JSON'],
  ['key', 1, { ttlMs: 1, scope: 'temp' }, 'cache: scope: expected session, user, app'],
])('S10 a wrong key, value, scope or time to live is refused: %j', async (key, value, options, message) => {
  await expect(cacheOf('one').set(key, value as never, options as never)).rejects.toThrow(message);
});
