import { Lexer } from 'marked';

/** Definitions of links and footnotes count for the whole text. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/** Quotes and lists within each other, at the beginning of a line. */
const DEEP = /^(?: {0,3}(?:>|(?:[-+*]|\d{1,9}[.)]) )){50}/m;

/** True for a text that would hold up the page: to read a thousand quotes within each other takes seconds. */
export function isDeep(text: string): boolean {
  return DEEP.test(text);
}

/**
 * The blocks of a Markdown text, such as paragraphs and lists, in order; joined they are the text, but for white space. While an answer grows, all
 * but the last ones stay the same, so that they need not be rendered again.
 */
export function blocksOf(text: string): string[] {
  const tokens = new Lexer().blockTokens(text.replaceAll(/\r\n?/g, '\n'));
  // Code may have lines that look like definitions.
  if (tokens.some(({ raw, type }) => type !== 'code' && DEFINITION.test(raw))) return [text];
  const blocks: string[] = [];
  for (const { raw, type } of tokens) {
    const last = blocks.at(-1);
    if (last !== undefined && type === 'space') blocks[blocks.length - 1] = last + raw;
    else blocks.push(raw);
  }
  return blocks;
}
