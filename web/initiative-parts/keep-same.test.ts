import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { keepSame } from './keep-same.ts';

it('I3 what a reading has not changed stays the same object, all else is that of the new one', () => {
  const before = { tasks: [{ id: 1 }, { id: 2 }], title: 'a' };
  const kept = keepSame(before, { tasks: [{ id: 1 }, { id: 3 }], title: 'a' });
  expect(kept).toEqual({ tasks: [{ id: 1 }, { id: 3 }], title: 'a' });
  expect(kept.tasks[0]).toBe(before.tasks[0]);
  expect(kept.tasks).not.toBe(before.tasks);
  expect(keepSame(before, structuredClone(before))).toBe(before);
  expect(keepSame({ a: 1, b: 2 }, { a: 1 })).toEqual({ a: 1 });
  expect(keepSame([1, 2], [1])).toEqual([1]);
});

it('I3 whatever the two readings, the result equals the new one, and is the old one if they are equal', () => {
  const json = fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value)));
  fc.assert(
    fc.property(json, json, (before, next) => {
      expect(keepSame(before, next)).toEqual(next);
      expect(keepSame(before, structuredClone(before))).toBe(before);
    }),
    cases(),
  );
});
