// The workflow code with replacements, as after a change.
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { capturingBundleOf } from '../../worker/replay/replay.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/** A piece of the source, which must occur exactly once, and its replacement. */
export type Edit = [from: string, to: string];

/** A bundle of the workflow code with replacements in one file. Its folder is deleted after the test file. */
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
  if (/\bpatched\(/.test(source)) source = `import { patched } from '@temporalio/workflow';\n${source}`;
  await writeFile(path.join(dir, file), source);
  return capturingBundleOf(path.join(dir, 'workflows', 'index.ts'));
}
