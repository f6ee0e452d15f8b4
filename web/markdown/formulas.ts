/** The language of a code block that holds a formula. */
export const FORMULA = 'math';
/** Begins inline code that holds a formula: a character that texts do not contain. */
const MARK = '\uE0F1';

/**
 * Code, which stays as it is; formulas in lines of their own; formulas in a line. A single `$` begins a formula only where no
 * space follows, and ends one only where no space precedes and no digit follows, so that prices are not formulas. The lengths
 * are limited, because a formula that does not end would be searched again from each beginning.
 */
const FOUND = new RegExp(
  [
    String.raw`(?:(?<fence>\`{3,}|~{3,})[\s\S]*?(?:\k<fence>|(?![\s\S]))|(?<tick>\`{1,2})[^\`\n]+\k<tick>)`,
    String.raw`^(?<indent>[ \t]*)(?:\$\$(?<dollars>[^$]{1,4000}?)\$\$|\\\[(?<brackets>[\s\S]{1,4000}?)\\\])[ \t]*$`,
    String.raw`(?<!\\)\$\$(?<within>[^$\n]{1,1000}?)\$\$`,
    String.raw`(?<!\\)\\\[(?<bracketed>[^\n]{1,1000}?)\\\]`,
    String.raw`(?<!\\)\\\((?<rounded>[^\n]{1,1000}?)\\\)`,
    String.raw`(?<![\\$\w])\$(?=[^\s$])(?<single>(?:[^$\n\\]|\\.){1,500}?)(?<=[^\s\\])\$(?![\d$])`,
  ].join('|'),
  'gm',
);

/** A Markdown text with its formulas as code: blocks of the language `math`, and inline code that `inlineFormula` knows. */
export function withFormulas(text: string): string {
  if (!/\$|\\[[(]/.test(text)) return text;
  return text.replaceAll(FOUND, (...found) => {
    const [whole] = found as [string];
    const { indent = '', dollars, brackets, ...inline } = found.at(-1) as Partial<Record<string, string>>;
    const block = dollars ?? brackets;
    if (block !== undefined) return blockOf(block, indent);
    const formula = inline['within'] ?? inline['bracketed'] ?? inline['rounded'] ?? inline['single'];
    if (formula === undefined || formula.trim() === '') return whole;
    const ticks = '`'.repeat(longestRun(formula) + 1);
    return `${ticks}${MARK}${formula.trim()} ${ticks}`;
  });
}

/** The formula in inline code; undefined: it is code. */
export function inlineFormula(code: string): string | undefined {
  return code.startsWith(MARK) ? code.slice(MARK.length).trim() : undefined;
}

function blockOf(formula: string, indent: string): string {
  const lines = [`~~~~${FORMULA}`, ...formula.trim().split('\n'), '~~~~'];
  return lines.map((line) => indent + line.trim()).join('\n');
}

/** Length of the longest run of backticks. */
function longestRun(text: string): number {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map(({ length }) => length));
}
