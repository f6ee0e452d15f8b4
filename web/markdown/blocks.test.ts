import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { blocksOf, isDeep } from './blocks.ts';

const PARAGRAPHS = [
  '# Owls\n\n',
  'One.\nTwo.\n\n',
  '- a\n\n  b\n- c\n\n',
  '```js\na\n\nb\n```\n\n',
  '| a |\n|---|\n| 1 |\n\n',
];

it('H8 a Markdown text is divided between its blocks, never within one', () => {
  expect(blocksOf(PARAGRAPHS.join(''))).toEqual(PARAGRAPHS);
  expect(blocksOf('')).toEqual([]);
});

it('H8 blocks that are complete stay the same while the text grows', () => {
  const whole = PARAGRAPHS.join('');
  const final = blocksOf(whole);
  for (let end = 1; end < whole.length; end++) {
    const blocks = blocksOf(whole.slice(0, end));
    const complete = blocks.slice(0, -1);
    expect(complete.map((block) => block.trimEnd())).toEqual(
      final.slice(0, complete.length).map((block) => block.trimEnd()),
    );
  }
});

it('H8 the blocks of any text are the text, but for white space', () => {
  const words = fc.constantFrom('a', '# ', '- ', '> ', '```', '$$', '\n', '\n\n', '    ', '|', '<b>', '[x]: /y');
  fc.assert(
    fc.property(fc.array(words, { maxLength: 30 }), (parts) => {
      const text = parts.join('');
      expect(blocksOf(text).join('').replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''));
    }),
    cases(),
  );
});

it('H8 a text with definitions of links is one block', () => {
  const text = 'See [owls].\n\n[owls]: https://example.org/\n';
  expect(blocksOf(text)).toEqual([text]);
  const code = ['```ts\n  [name: string]: Owl;\n```\n\n', 'Owls.\n'];
  expect(blocksOf(code.join(''))).toEqual(code);
});

it('H8 a text with quotes or lists that are nested very deep is told from others', () => {
  for (const mark of ['>', '> ', '- + ', '1. ', '> * '])
    expect(isDeep(`An owl:\n\n${mark.repeat(60)}x\ny`), mark).toBe(true);
  for (const text of ['> > > x', '- - x', '-'.repeat(200), '> x\n'.repeat(200), `> ${'- x '.repeat(200)}`])
    expect(isDeep(text), text).toBe(false);
});
