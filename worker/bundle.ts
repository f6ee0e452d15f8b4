import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

const ROOT = path.resolve(import.meta.dirname, '..');
const SOURCES = ['workflows', 'domain'];
/** In the package it is there already. */
const BUILT = path.join(ROOT, 'workflows', 'bundle.js');

/** Anything that changes the bundle: the sources, and the SDK that makes it. */
async function fingerprint(): Promise<string> {
  const hash = createHash('sha256');
  const sdk = createRequire(import.meta.url)('@temporalio/workflow/package.json') as { version: string };
  hash.update(sdk.version);
  for (const folder of SOURCES) {
    for (const name of (await readdir(path.join(ROOT, folder))).toSorted()) {
      if (!/\.[jt]s$/.test(name) || name.includes('.test.')) continue;
      hash.update(`${folder}/${name}\0`).update(await readFile(path.join(ROOT, folder, name)));
    }
  }
  return hash.digest('hex');
}

/**
 * The workflows' code for the sandbox. Making it takes seconds, so it is kept under `cacheDir` by what it was made of.
 */
export async function workflowBundle(cacheDir: string): Promise<{ codePath: string }> {
  if (existsSync(BUILT)) return { codePath: BUILT };
  const codePath = path.join(cacheDir, `workflows-${(await fingerprint()).slice(0, 32)}.js`);
  if (existsSync(codePath)) return { codePath };
  const workflowsPath = path.join(ROOT, 'workflows', 'index.ts');
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') });
  await mkdir(cacheDir, { recursive: true });
  // Several workers may come here at once: each writes its own, and the last rename wins with the same content.
  const draft = `${codePath}.${randomUUID()}`;
  await writeFile(draft, code);
  await rename(draft, codePath);
  return { codePath };
}
