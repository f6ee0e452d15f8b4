import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';

/** Paths of relative imports, also of types in place. */
const IMPORTED = /(?:from\s+|import\s*\(?\s*)['"](\.[^'"]+)['"]/g;

/**
 * The declarations (`.d.ts`) in a folder that no entry point imports, directly or through others: no user's compiler reads
 * them, and each takes at least a block of the disk.
 * @param entries paths of the declarations of the package's exports
 */
export async function unusedDeclarations(dir: string, entries: readonly string[]): Promise<string[]> {
  const used = new Set(entries.map((file) => path.resolve(file)));
  // A Set also iterates over what is added meanwhile.
  for (const file of used) {
    for (const [, imported = ''] of (await readFile(file, 'utf8')).matchAll(IMPORTED))
      used.add(path.resolve(path.dirname(file), imported.replace(/\.[jt]sx?$/, '.d.ts')));
  }
  const all = await Array.fromAsync(glob(path.join(dir, '**', '*.d.ts')));
  return all.map((file) => path.resolve(file)).filter((file) => !used.has(file));
}
