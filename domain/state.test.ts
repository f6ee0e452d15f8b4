import { expect, it } from 'vitest';
import { changesOf } from './state-changes.ts';
import {
  MAX_STATE_DELTA_BYTES,
  MAX_STATE_KEYS,
  MAX_STATE_SCOPE_BYTES,
  MAX_STATE_VALUE_BYTES,
  type StateScope,
} from './state-keys.ts';
import { editsOf, State } from './state.ts';
import type { Json } from './text.ts';

it('K2 values are reached by methods and as properties', () => {
  const state = new State({ step: 'cart', 'user:theme': 'dark', nothing: null });
  expect([state['step'], state.get('user:theme'), state.get('nothing'), state.get('missing', 7)]).toEqual([
    'cart',
    'dark',
    null,
    7,
  ]);
  state['step'] = 'payment';
  state.update({ 'user:n': 1, 'temp:ok': { valid: true } });
  expect(state.delete('nothing')).toBe(true);
  expect(state.delete('nothing')).toBe(false);
  expect('step' in state && state.has('user:n') && !state.has('nothing')).toBe(true);
  const all = { step: 'payment', 'user:theme': 'dark', 'user:n': 1, 'temp:ok': { valid: true } };
  expect(state.getAll()).toEqual(all);
  expect(Object.fromEntries(Object.entries(state))).toEqual(all);
  expect(JSON.parse(JSON.stringify(state))).toEqual(all);
  delete state['step'];
  expect(Object.keys(state)).toEqual(['user:theme', 'user:n', 'temp:ok']);
  expect(state.changes()).toEqual({
    stateDelta: { 'user:n': 1, 'temp:ok': { valid: true } },
    stateDeletions: ['step', 'nothing'],
    stateIncrements: {},
  });
});

it('K2 keys that are names of methods are reached by get and set; assigning to them is refused', () => {
  const state = new State();
  state.set('get', 1);
  state.set('constructor', 2);
  expect([state.get('get'), state.get('constructor'), state.has('toString')]).toEqual([1, 2, false]);
  expect(() => ((state as Record<string, unknown>)['get'] = 3)).toThrow('state.get: expected state.set("get", …)');
  expect(state.getAll()).toEqual({ get: 1, constructor: 2 });
});

it('K2 increments add up, and after a set they are part of it', () => {
  const state = new State({ n: 4, 'user:text': 'x', 'temp:nothing': null });
  expect([state.increment('n'), state.increment('n', 2), state.increment('app:new', -1)]).toEqual([5, 7, -1]);
  state.set('m', 1);
  state.increment('m', 9);
  expect(state.changes()).toMatchObject({ stateDelta: { m: 10 }, stateIncrements: { n: 3, 'app:new': -1 } });
  for (const name of ['user:text', 'temp:nothing']) {
    expect(() => state.increment(name)).toThrow(`state["${name}"]: expected a number to add to`);
  }
  expect(() => state.increment('n', Number.NaN)).toThrow('stateIncrements["n"]: expected a finite number');
});

class Point {
  x = 1;
}
const cyclic: Record<string, unknown> = { a: [{}] };
(cyclic['a'] as unknown[])[0] = cyclic;

it.each([
  ['a function', { f: () => 1 }, 'state["k"].f: expected a value that JSON can carry, not a function'],
  ['a class instance', [{ at: new Point() }], 'state["k"][0].at: expected a plain object, not an instance of Point'],
  ['a date', new Date(0), 'state["k"]: expected a plain object, not an instance of Date'],
  ['a map', { m: new Map() }, 'state["k"].m: expected a plain object, not an instance of Map'],
  ['a cycle', cyclic, 'state["k"].a[0]: expected a value that does not contain itself'],
  ['a bigint', { 'a b': [1n] }, 'state["k"]["a b"][0]: expected a value that JSON can carry, not a bigint'],
  ['NaN', { a: { b: Number.NaN } }, 'state["k"].a.b: expected a finite number, not NaN'],
  ['infinity', [Infinity], 'state["k"][0]: expected a finite number, not Infinity'],
  ['undefined', undefined, 'state["k"]: expected a value that JSON can carry, not undefined'],
  [
    'undefined in an array',
    { a: [1, undefined] },
    'state["k"].a[1]: expected a value that JSON can carry, not undefined',
  ],
  // oxlint-disable-next-line no-sparse-arrays -- the case
  ['a hole in an array', [1, , 3], 'state["k"][1]: expected a value that JSON can carry, not undefined'],
  ['a symbol', Symbol('s'), 'state["k"]: expected a value that JSON can carry, not a symbol'],
  ['a key that is a symbol', { a: { [Symbol('s')]: 1 } }, 'state["k"].a: expected an object whose keys are strings'],
  [
    '__proto__',
    { a: JSON.parse('{"__proto__": {}}') as object },
    'state["k"].a.__proto__: expected another key than __proto__',
  ],
])('K1 %s is refused with the path to it, and nothing is changed', (_what, value, message) => {
  const state = new State({ k: 1 });
  expect(() => state.set('k', value)).toThrow(message);
  expect(() => state.update({ other: 2, k: value })).toThrow(message);
  expect([state.getAll(), state.hasDelta()]).toEqual([{ k: 1 }, false]);
});

it('K1 a value that is too deep is refused, one that is shared is not', () => {
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const state = new State();
  state.set('k', deep(100));
  expect(() => state.set('k', deep(101))).toThrow('expected a value at most 100 levels deep');
  const shared = { n: -0, gone: undefined };
  state.set('k', [shared, shared]);
  shared.n = 5;
  expect(state.get('k')).toStrictEqual([{ n: 0 }, { n: 0 }]);
});

it('K1 characters that Postgres cannot store become U+FFFD, also in names of members', () => {
  const state = new State();
  state.set('k', { 'a\0': ['b\uD83D', '😀'] });
  expect(state.get('k')).toEqual({ 'a\uFFFD': ['b\uFFFD', '😀'] });
});

it('K1 a value larger than the limit is refused, naming its key, its size and the limit', () => {
  const state = new State();
  expect(() => state.set('user:notes', 'x'.repeat(MAX_STATE_VALUE_BYTES))).toThrow(
    `state["user:notes"]: expected at most ${MAX_STATE_VALUE_BYTES} bytes as JSON, not ${MAX_STATE_VALUE_BYTES + 12}`,
  );
  expect(editsOf(state)).toEqual([]);
});

it('K1 a key that would exceed the limit of its scope is refused; other scopes are not affected', () => {
  const large = 'x'.repeat(60_000);
  const state = new State(Array.from({ length: 4 }, (_, n) => [`user:${n}`, large] as const));
  expect(() => state.set('user:4', large)).toThrow(
    `state["user:4"]: expected the scope "user" to hold ${MAX_STATE_SCOPE_BYTES} bytes in ${MAX_STATE_KEYS} keys`,
  );
  state.set('user:0', 'small');
  state.set('user:4', large);
  state.set('mine', large);
  const many = new State(Array.from({ length: MAX_STATE_KEYS }, (_, n) => [`app:${n}`, n] as const));
  expect(() => many.set('app:more', 1)).toThrow('state["app:more"]');
  many.set('app:7', 'again');
});

it('K1 what a State changes is limited like an event, over all scopes', () => {
  const state = new State();
  const large = 'x'.repeat(60_000);
  for (const name of ['a', 'user:a', 'app:a', 'temp:a']) state.set(name, large);
  expect(() => state.set('b', large)).toThrow(
    `state["b"]: expected at most ${MAX_STATE_DELTA_BYTES} changed bytes, not `,
  );
  expect([state.has('b'), editsOf(state).length]).toEqual([false, 4]);
  state.set('a', 'small');
  state.set('b', large);
  const many = new State();
  for (let n = 0; n < MAX_STATE_KEYS; n += 1) many.delete(`k${n}`);
  expect(() => many.delete('more')).toThrow('state["more"]: expected at most 1000 changed keys, not 1001');
});

it('K1 an event may change so many keys and bytes, each key once', () => {
  const large = 'x'.repeat(60_000);
  const five = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`k${n}`, large]));
  expect(() => changesOf({ stateDelta: five })).toThrow('stateDelta: expected at most 262144 changed bytes');
  const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`k${n}`, n]));
  expect(() => changesOf({ stateDelta: many })).toThrow('stateDelta: expected at most 1000 changed keys, not 1001');
  expect(() => changesOf({ stateDelta: { a: 1 }, stateDeletions: ['a'] })).toThrow(
    'actions["a"]: expected one change per key',
  );
  expect(() => changesOf({ stateDelta: { 'user:x': 1 }, stateIncrements: { 'user:x': 1 } })).toThrow(
    'one change per key',
  );
  expect(() => changesOf({ stateDelta: [] as never })).toThrow('stateDelta: expected an object');
});

it('K1 in a scope that was not loaded completely, unknown keys can be neither read nor written', () => {
  const state = new State([['user:known', 1]] as [string, Json][], { incomplete: new Set<StateScope>(['user']) });
  expect(state.get('user:known')).toBe(1);
  expect(state.get('other')).toBeUndefined();
  expect(() => state.get('user:unknown')).toThrow('state["user:unknown"]');
  expect(() => state.has('user:unknown')).toThrow('state["user:unknown"]');
  expect(() => state.set('user:more', 1)).toThrow('state["user:more"]');
  state.delete('user:unknown');
  expect(editsOf(state)).toEqual([{ scope: 'user', key: 'unknown' }]);
});

it.each(['', 'user:', 'a\0', '\uD83D', 'x'.repeat(257)])('K1 the key %j is neither written nor deleted', (name) => {
  const state = new State();
  expect(() => state.set(name, 1)).toThrow('a key of state has 1 to 256 bytes of text');
  expect(() => state.delete(name)).toThrow('a key of state has 1 to 256 bytes of text');
  expect(() => changesOf({ stateDeletions: [name] })).toThrow('stateDeletions');
  expect(editsOf(state)).toEqual([]);
});

it.each(['__proto__', 'user:__proto__'])('K1 %s is no key, and neither is a symbol', (name) => {
  const state = new State();
  const message = `["${name}"]: expected another key than __proto__`;
  expect(() => state.set(name, 1)).toThrow(`state${message}`);
  expect(() => changesOf({ stateDelta: JSON.parse(`{"${name}": 1}`) as Record<string, unknown> })).toThrow(
    `stateDelta${message}`,
  );
  expect(() => Object.assign(state, { [Symbol('s')]: 1 })).toThrow('state: expected an object whose keys are strings');
  expect(() => changesOf({ stateDelta: { [Symbol('s')]: 1 } })).toThrow(
    'stateDelta: expected an object whose keys are strings',
  );
  expect(editsOf(state)).toEqual([]);
});

it('K6 what was read and then written carries the version that was read; blind writes and increments carry none', () => {
  const versions = new Map([
    ['user:read', 5],
    ['user:blind', 6],
    ['user:limit', 7],
  ]);
  const state = new State({ 'user:read': 1, 'user:blind': 1, 'user:limit': 10 }, { versions });
  state.set('user:read', (state.get<number>('user:read') ?? 0) + 1);
  state.has('absent');
  state.set('absent', 1);
  state.set('user:blind', 2);
  state.increment('user:count');
  if (state.increment('user:limit') > 10) state.set('user:limit', 0);
  expect(editsOf(state).map(({ key, seen }) => [key, seen])).toEqual([
    ['read', 5],
    ['absent', 0],
    ['blind', undefined],
    ['count', undefined],
    ['limit', 7],
  ]);
});
