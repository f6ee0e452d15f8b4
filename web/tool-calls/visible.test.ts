import { expect, it } from 'vitest';
import { visible, visibleJson } from './visible.ts';

it.each([
  ['rm \u202Egpj.exe', String.raw`rm \u202egpj.exe`],
  ['a\u200Bb\u2066c\u00ADd\uFEFFe', String.raw`a\u200bb\u2066c\u00add\ufeffe`],
  ['a\u0000b\u001Bc\rd\u2028e', String.raw`a\u0000b\u001bc\u000dd\u2028e`],
  ['a\u{E0041}b\u3164c\uD800', String.raw`a\u{e0041}b\u3164c\ud800`],
  ['rm\u00A0-r\u2003a\u3000b\u2800c', String.raw`rm\u00a0-r\u2003a\u3000b\u2800c`],
])('P3 what is not seen, looks like a space, or reorders is shown as an escape: %j', (text, shown) => {
  expect(visible(text)).toBe(shown);
});

it('P3 all other text is shown as it is', () => {
  const text = String.raw`C:\users\ubuntu \d` + 'one\n\ttwo\r\n – naïve שלום 日本 😀';
  expect(visible(text)).toBe(text);
});

it('P3 a text that looks like an escape is shown otherwise than the character, whatever is before it', () => {
  const texts = ['\u202E', '\u{E0041}'].flatMap((unseen) =>
    [unseen, visible(unseen)].flatMap((end) => ['', '\\', '\\\\', '\\\\\\'].map((before) => before + end)),
  );
  expect(visible(String.raw`\u202e`)).toBe(String.raw`\\u202e`);
  expect(new Set(texts.map(visible)).size).toBe(new Set(texts).size);
  const backslashes = '\\'.repeat(1_000_000);
  expect(visible(backslashes)).toBe(backslashes);
});

it('P3 JSON is shown as it is, on one line if it is long or deep; only what is not seen is escaped', () => {
  const value = { a: ['\u202E', String.raw`\u202e`, '\n'], 'b\u200B': 1 };
  expect(visibleJson(value).split('\n')).toEqual([
    ...['{', '  "a": [', String.raw`    "\u202e",`, String.raw`    "\\u202e",`, String.raw`    "\n"`, '  ],'],
    ...[String.raw`  "b\u200b": 1`, '}'],
  ]);
  expect(JSON.parse(visibleJson(value))).toEqual(value);
  const deep: unknown = JSON.parse(`${'['.repeat(1_000)}${']'.repeat(1_000)}`);
  const long = Array.from({ length: 50_000 }, () => 1);
  for (const each of [deep, long]) expect(visibleJson(each)).toBe(JSON.stringify(each));
});
