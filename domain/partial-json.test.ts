import { parsePartialJson as reference } from 'ai';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parsePartialJson } from './partial-json.ts';

async function expectSame(text: string): Promise<void> {
  expect({ text, value: parsePartialJson(text) }).toEqual({ text, value: (await reference(text)).value });
}

it('T1 a tool input that is cut off anywhere reads as its readers read it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.json(), fc.nat(), async (json, cut) => expectSame(json.slice(0, cut % (json.length + 1)))),
    { numRuns: 2_000 },
  );
});

it('T1 text that is no JSON reads as its readers read it', async () => {
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    '"',
    ',',
    ':',
    't',
    'true',
    'fal',
    'null',
    '-',
    '1',
    '0.',
    'e',
    ' ',
    '\\',
    'u00e9',
    'x',
  ];
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...pieces), { maxLength: 14 }), async (text) =>
      expectSame(text.join('')),
    ),
    { numRuns: 20_000 },
  );
});

it.each(['{"__proto__":{"a":1}}', '{"a":{"constructor":{"prototype":1}', '{"constructor":1}', 'null', 'nul', ''])(
  'T1 %s reads as its readers read it',
  expectSame,
);
