import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { canonicalJson } from './canonical-json.ts';

it('P1 sorts keys at every depth, omits undefined, keeps the order of arrays', () => {
  const value = { b: [{ z: 1, a: undefined, y: null }, 'x'], a: { '2': 1, '10': 2 }, __proto__: null };
  expect(canonicalJson(value)).toBe('{"a":{"2":1,"10":2},"b":[{"y":null,"z":1},"x"]}');
});

it('P1 equal values have equal bytes in any order of their keys', () => {
  const shuffled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shuffled);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .toReversed()
        .map(([key, member]) => [key, shuffled(member)]),
    );
  };
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      expect(canonicalJson(shuffled(value))).toBe(canonicalJson(value));
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
    cases(),
  );
});
