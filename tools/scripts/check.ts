// `npm run check`: runs every `check:*` script of package.json, reports each result, and fails if one failed.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { execa } from 'execa';

const root = path.join(import.meta.dirname, '..', '..');

/** Runs a command line with the tools of node_modules; shows its output only if it fails. */
async function passes(name: string, command: string): Promise<boolean> {
  const { failed, all, durationMs } = await execa(command, {
    cwd: root,
    shell: true,
    preferLocal: true,
    localDir: root,
    all: true,
    reject: false,
  });
  const seconds = (durationMs / 1000).toFixed(1);
  console.log(failed ? `FAILED ${name} (${seconds} s): ${command}\n${all}` : `ok     ${name} (${seconds} s)`);
  return !failed;
}

const { scripts } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
let failures = 0;
for (const [name, command] of Object.entries(scripts)) {
  if (name.startsWith('check:') && !(await passes(name, command))) failures++;
}
if (failures > 0) console.log(`${failures} of the checks failed`);
process.exitCode = failures > 0 ? 1 : 0;
