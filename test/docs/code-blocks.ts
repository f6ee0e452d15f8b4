// The TypeScript examples of the documentation.
import { pages } from './shell-blocks.ts';

export interface CodeBlock {
  file: string;
  line: number;
  language: 'ts' | 'tsx';
  text: string;
}

/** Fenced blocks, in order. */
export async function codeBlocks(): Promise<CodeBlock[]> {
  return (await pages()).flatMap(({ file, text }) =>
    Array.from(text.matchAll(/^```(tsx?)\n([^]*?)^```$/gm), (match) => ({
      file,
      line: text.slice(0, match.index).split('\n').length + 1,
      language: match[1] as 'ts' | 'tsx',
      text: match[2] ?? '',
    })),
  );
}
