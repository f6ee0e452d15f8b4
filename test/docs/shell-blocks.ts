// The shell commands in the documentation, as a reader would copy them.
import { spawnSync } from 'node:child_process';
import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';

/** A command of a page; `line` is its first line. */
export interface DocumentedCommand {
  file: string;
  line: number;
  text: string;
}

const root = path.join(import.meta.dirname, '..', '..');
const FENCE = /^```(\w*)\s*$/;
/** The start of a shell command: a known program, after optional settings. */
const COMMAND = /^(?:[A-Z][A-Z_]*=\S*\s+)*(?:curl|npm|npx|node|temporal|psql|docker|git|promtool)\s/;

/** Every page of the documentation, with its text. */
export async function pages(): Promise<{ file: string; text: string }[]> {
  const files = await Array.fromAsync(glob(['*.md', 'docs/*.md'], { cwd: root }));
  return Promise.all(
    files.toSorted().map(async (file) => ({ file, text: await readFile(path.join(root, file), 'utf8') })),
  );
}

/** The shell commands of a page, in order, each with its continued lines. */
export function commandsOf({ file, text }: { file: string; text: string }): DocumentedCommand[] {
  const found: DocumentedCommand[] = [];
  let open: DocumentedCommand | undefined;
  for (const { line, code } of codeLines(text)) {
    if (open) open.text += `\n${code}`;
    else if (COMMAND.test(code)) open = { file, line, text: code };
    if (open && isWhole(open.text)) {
      found.push(open);
      open = undefined;
    }
  }
  if (open) throw new Error(`${file}:${open.line}: the command is incomplete`);
  return found;
}

function codeLines(text: string): { line: number; code: string }[] {
  let fenced = false;
  return text.split('\n').flatMap((raw, index) => {
    const fence = FENCE.test(raw);
    if (fence) fenced = !fenced;
    if (fence || (!fenced && !raw.startsWith('    '))) return [];
    return [{ line: index + 1, code: fenced ? raw : raw.slice(4) }];
  });
}

function isWhole(text: string): boolean {
  return !text.endsWith('\\') && spawnSync('bash', ['-n', '-c', text]).status === 0;
}
