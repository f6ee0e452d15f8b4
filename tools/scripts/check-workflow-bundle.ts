// Bundles the workflow code as a worker does and fails if it contains a package that does not belong in the sandbox, which
// would slow down the start of every worker and may not be deterministic, or a module of ours with a variable that can
// change: all workflows of a worker share its modules (worker/sandbox/bundle.ts).
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { bundle } from '../../worker/sandbox/bundle.ts';
import { changingVariables } from './changing-variables.ts';

const FORBIDDEN = ['ai', '@ai-sdk', 'pg', 'zod'];
const root = path.join(import.meta.dirname, '..', '..');
const workflowsPath = path.join(root, 'workflows', 'index.ts');

/** Package names of the modules in a bundle, from the paths that webpack leaves in it. */
function packagesIn(code: string): Set<string> {
  const names = code.matchAll(/node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g);
  return new Set([...names].map((match) => match[1] ?? ''));
}

/** Our own modules in a bundle, as paths from the root. */
function modulesIn(code: string): string[] {
  return [...code.matchAll(/^\/\*{3}\/ "\.\/((?!node_modules\/)[^"]+\.ts)"$/gm)].map((match) => match[1]!);
}

if (!existsSync(workflowsPath)) {
  console.log('no workflows/index.ts to bundle');
  process.exit(0);
}
const code = await bundle(workflowsPath);
const packages = packagesIn(code);
const modules = modulesIn(code);
if (!packages.has('@temporalio/workflow') || !modules.includes('workflows/session.ts'))
  throw new Error('the bundle contains no module paths, so it cannot be checked');
const problems = FORBIDDEN.filter((name) =>
  [...packages].some((one) => one === name || one.startsWith(`${name}/`)),
).map((name) => `the workflow bundle contains ${name}`);
for (const file of modules) {
  const { program } = parseSync(file, await readFile(path.join(root, file), 'utf8'));
  for (const name of changingVariables(program))
    problems.push(`${file}: ${name} can change, and all workflows of a worker share it`);
}
for (const problem of problems) console.log(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
