import { isDeepStrictEqual } from 'node:util';
import { parsePartialJson as reference } from 'ai';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { parsePartialJson } from './partial-json.ts';

/** What this makes of a text, and what the SDK makes of it. */
async function bothOf(text: string): Promise<[unknown, unknown]> {
  return [parsePartialJson(text), (await reference(text)).value];
}

const isSame = async (text: string) => isDeepStrictEqual(...(await bothOf(text)));

it('T1 a tool input that is cut off anywhere reads as its readers read it', async () => {
  const cutJson = fc.tuple(fc.json(), fc.nat()).map(([json, cut]) => json.slice(0, cut % (json.length + 1)));
  const found = await fc.check(fc.asyncProperty(cutJson, isSame), cases(2_000));
  expect(found.counterexample).toBeNull();
});

it('T1 text that is no JSON reads as its readers read it', async () => {
  const pieces = ['{}[]",:t-1e \\x'.split(''), 'true', 'fal', 'null', '0.', 'u00e9'].flat();
  const text = fc.array(fc.constantFrom(...pieces), { maxLength: 14 }).map((some) => some.join(''));
  const found = await fc.check(fc.asyncProperty(text, isSame), cases(20_000));
  expect(found.counterexample).toBeNull();
});

it.each(['{"__proto__":{"a":1}}', '{"a":{"constructor":{"prototype":1}', '{"constructor":1}', 'null', 'nul', ''])(
  'T1 %s reads as its readers read it',
  async (text) => {
    const [ours, theirs] = await bothOf(text);
    expect(ours).toEqual(theirs);
  },
);
