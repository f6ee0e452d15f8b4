import { expect, it } from 'vitest';
import type { Json } from '../domain/text.ts';
import { MAX_STATE_KEYS, MAX_STATE_SCOPE_BYTES, MAX_STATE_VALUE_BYTES, toolState } from './tool-state.ts';

it('K1 a value larger than the limit is refused, naming its key, its size and the limit', () => {
  const { state, edits } = toolState(new Map());
  expect(() => state.set('user:notes', 'x'.repeat(MAX_STATE_VALUE_BYTES))).toThrow(
    `state key "user:notes": ${MAX_STATE_VALUE_BYTES + 12} bytes as JSON, expected at most ${MAX_STATE_VALUE_BYTES}`,
  );
  expect(edits()).toEqual([]);
});

it('K1 a key that would exceed the limit of its scope is refused; other scopes are not affected', () => {
  const values = new Map<string, Json>();
  const { state } = toolState(values);
  const large = 'x'.repeat(60_000);
  for (let n = 0; n < 4; n += 1) state.set(`user:${n}`, large);
  expect(() => state.set('user:4', large)).toThrow(
    `state key "user:4": the scope "user" may hold ${MAX_STATE_SCOPE_BYTES} bytes in ${MAX_STATE_KEYS} keys`,
  );
  state.set('user:0', 'small');
  state.set('user:4', large);
  state.set('mine', large);
  const many = toolState(new Map(Array.from({ length: MAX_STATE_KEYS }, (_, n) => [`app:${n}`, n] as const)));
  expect(() => many.state.set('app:more', 1)).toThrow('state key "app:more"');
  many.state.set('app:7', 'again');
});

it('K1 in a scope that was not loaded completely, unknown keys can be neither read nor written', () => {
  const { state, edits } = toolState(new Map<string, Json>([['user:known', 1]]), new Set(['user'] as const));
  expect(state.get('user:known')).toBe(1);
  expect(state.get('other')).toBeUndefined();
  expect(() => state.get('user:unknown')).toThrow('state key "user:unknown"');
  expect(() => state.has('user:unknown')).toThrow('state key "user:unknown"');
  expect(() => state.set('user:more', 1)).toThrow('state key "user:more"');
  state.delete('user:unknown');
  expect(edits()).toEqual([{ scope: 'user', key: 'unknown' }]);
});

it.each(['', 'user:', 'a\0', '\uD83D', 'x'.repeat(257)])('K1 the key %j is neither written nor deleted', (name) => {
  const { state, edits } = toolState(new Map());
  expect(() => state.set(name, 1)).toThrow('a key of state has 1 to 256 bytes of text');
  expect(() => state.delete(name)).toThrow('a key of state has 1 to 256 bytes of text');
  expect(edits()).toEqual([]);
});
