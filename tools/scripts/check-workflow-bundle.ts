// Bundles the workflow code as a worker does and fails if it contains a package that does not belong in the sandbox: it would
// slow down the start of every worker, and may not be deterministic.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

const FORBIDDEN = ['ai', '@ai-sdk', 'pg', 'zod'];
const root = path.join(import.meta.dirname, '..', '..');
const workflowsPath = path.join(root, 'workflows', 'index.ts');

/** Package names of the modules in a bundle, from the paths that webpack leaves in it. */
function packagesIn(code: string): Set<string> {
  const names = code.matchAll(/node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g);
  return new Set([...names].map((match) => match[1] ?? ''));
}

if (!existsSync(workflowsPath)) {
  console.log('no workflows/index.ts to bundle');
  process.exit(0);
}
const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') });
const packages = packagesIn(code);
if (!packages.has('@temporalio/workflow'))
  throw new Error('the bundle contains no module paths, so it cannot be checked');
const found = FORBIDDEN.filter((name) => [...packages].some((one) => one === name || one.startsWith(`${name}/`)));
for (const name of found) console.log(`the workflow bundle contains ${name}`);
process.exitCode = found.length > 0 ? 1 : 0;
