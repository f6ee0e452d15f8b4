// `npm run check`: runs every `check:*` script of package.json, says how each went, and fails if one did.
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const root = path.join(import.meta.dirname, '..', '..');

/** Runs a command line of package.json with the tools of node_modules; its output is shown only when it fails. */
async function passes(name: string, command: string): Promise<boolean> {
  const started = performance.now();
  const PATH = [path.join(root, 'node_modules', '.bin'), process.env['PATH']].join(path.delimiter);
  const child = spawn(command, {
    cwd: root,
    shell: true,
    env: { ...process.env, PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once('error', reject).once('close', resolve),
  );
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(
    `${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)${code === 0 ? '' : `: ${command}\n${output}`}`,
  );
  return code === 0;
}

const { scripts } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
let failed = 0;
for (const [name, command] of Object.entries(scripts)) {
  if (name.startsWith('check:') && !(await passes(name, command))) failed++;
}
if (failed > 0) console.log(`${failed} of the checks failed`);
process.exitCode = failed > 0 ? 1 : 0;
