// The workflow code with pieces replaced: what it would be after a change.
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { capturingBundle } from '../../tools/scripts/histories/replay.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/** A piece of the source, which must be there once, and what takes its place. */
export type Edit = [from: string, to: string];

/** A bundle of the workflow code with pieces of a file replaced. Its folder goes after the test's file. */
export async function variant(file: string, ...edits: Edit[]): Promise<{ code: string }> {
  const dir = scratchDir();
  await mkdir(dir);
  for (const folder of ['workflows', 'domain']) {
    await cp(path.join(ROOT, folder), path.join(dir, folder), { recursive: true });
  }
  await symlink(path.join(ROOT, 'node_modules'), path.join(dir, 'node_modules'));
  await writeFile(path.join(dir, 'package.json'), '{ "type": "module" }');
  let source = await readFile(path.join(dir, file), 'utf8');
  for (const [from, to] of edits) {
    if (source.split(from).length !== 2) throw new Error(`${file} should hold "${from}" once`);
    source = source.replace(from, to);
  }
  await writeFile(path.join(dir, file), source);
  return capturingBundle(path.join(dir, 'workflows', 'index.ts'));
}
