// The package's public API as text. Types are as the compiler resolves them, so that the text names no file. TypeScript calls the API
// that tells them unstable: a new version of TypeScript may need changes here.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { format } from 'oxfmt';
import { API } from 'typescript/unstable/sync';
import { DeclarationPrinter } from './declaration-printer.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/**
 * The declarations behind the `exports` of package.json: a section for each entry, in order, and a last one with the types that
 * they name and no entry exports.
 */
export async function publicExports(): Promise<string> {
  const { exports } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { types: string }>;
  };
  const entries = Object.entries(exports).flatMap(([name, entry]) =>
    typeof entry === 'string' ? [] : [{ name: `perdure${name.slice(1)}`, file: sourceOf(entry.types) }],
  );
  const api = new API({ cwd: ROOT });
  try {
    const snapshot = api.updateSnapshot({ openProjects: [path.join(ROOT, 'tsconfig.build.json')] });
    const text = new DeclarationPrinter(snapshot.getProjects()[0]!).print(entries);
    const { code, errors } = await format('exports.d.ts', text, { printWidth: 120, singleQuote: true });
    if (errors.length > 0) throw new Error(`${errors[0]!.message}\n${errors[0]!.codeframe}`);
    return code;
  } finally {
    api.close();
  }
}

function sourceOf(declarations: string): string {
  return path.join(ROOT, declarations.replace('./dist/', '').replace(/\.d\.ts$/, '.ts'));
}
