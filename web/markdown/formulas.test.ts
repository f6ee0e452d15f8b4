import { expect, it } from 'vitest';
import { inlineFormula, withFormulas } from './formulas.ts';

/** The formulas in lines of a text. */
const inline = (text: string) =>
  [...withFormulas(text).matchAll(/(`+)([^`]*)\1/g)].map(([, , code]) => inlineFormula(code!)).filter(Boolean);

it('H8 formulas are found in the delimiters of TeX and of Markdown', () => {
  expect(inline(String.raw`so $x^2$, $$a$$, \(b\) and \[c\] hold`)).toEqual(['x^2', 'a', 'b', 'c']);
  expect(withFormulas('It is:\n\n$$\na\n+ b\n$$\n')).toBe('It is:\n\n~~~~math\na\n+ b\n~~~~\n');
  expect(withFormulas('- so\n  \\[ a \\]\n')).toBe('- so\n  ~~~~math\n  a\n  ~~~~\n');
});

it('H8 prices, escaped signs and code are no formulas', () => {
  for (const text of [
    'It costs $5 or $10.',
    'from US$5 to US$6',
    '$5-$10',
    String.raw`\$a\$`,
    '`$a$`',
    '```sh\necho $A $B\n```',
    '~~~\n$$a$$\n~~~',
    '```\n$a$ never ends',
    'a $ b $ c',
    '$$',
  ])
    expect(withFormulas(text), text).toBe(text);
});

it('H8 a formula with backticks ends where it ends', () => {
  expect(withFormulas('$a `b` c$ and more')).toMatch(/^``[^`]*`b`[^`]*``(?!`) and more$/);
});

it('H8 delimiters that never end are read in linear time', () => {
  for (const sign of ['$$', '\\[', '\\(', '$a', '`', '```', '$$\n']) {
    const text = sign.repeat(20_000);
    expect(withFormulas(text).length).toBeGreaterThan(0);
  }
});
