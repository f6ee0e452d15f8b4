import { expect, it } from 'vitest';
import { visible } from './visible.ts';

it.each([
  ['rm \u202Egpj.exe', String.raw`rm \u202egpj.exe`],
  ['a\u200Bb\u2066c\u00ADd\uFEFFe', String.raw`a\u200bb\u2066c\u00add\ufeffe`],
  ['a\u0000b\u001Bc\rd\u2028e', String.raw`a\u0000b\u001bc\u000dd\u2028e`],
  ['a\u{E0041}b\u3164c\uD800', String.raw`a\u{e0041}b\u3164c\ud800`],
])('P3 what is not seen, or reorders, is shown as an escape: %j', (text, shown) => {
  expect(visible(text)).toBe(shown);
});

it('P3 all other text is shown as it is', () => {
  const text = 'one\n\ttwo – naïve שלום 日本 😀';
  expect(visible(text)).toBe(text);
});
