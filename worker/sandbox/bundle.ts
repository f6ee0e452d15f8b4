import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

/** All packages of Temporal's SDK have the same. */
export const { version: SDK_VERSION } = createRequire(import.meta.url)('@temporalio/workflow/package.json') as {
  version: string;
};
/** Counts changes of `bundle` below that change its output. */
const FORMAT = 2;
const ROOT = path.resolve(import.meta.dirname, '../..');
const SOURCES = ['workflows', 'domain'];
/** The published package contains the bundle. */
const BUILT = path.join(ROOT, 'workflows', 'bundle.js');

/** A digest of everything that changes the bundle: the sources below `root`, nested folders included, and the SDK. */
export async function bundleDigest(root: string): Promise<string> {
  const hash = createHash('sha256');
  hash.update(`${FORMAT}\0${SDK_VERSION}`);
  for (const folder of SOURCES) {
    for (const name of (await readdir(path.join(root, folder), { recursive: true })).toSorted()) {
      if (!/\.[jt]s$/.test(name) || name.includes('.test.')) continue;
      hash.update(`${folder}/${name}\0`).update(await readFile(path.join(root, folder, name)));
    }
  }
  return hash.digest('hex');
}

/** The workflow code for the sandbox. Bundling takes seconds, so the result is cached in `cacheDir` by its digest. */
export async function workflowBundle(cacheDir: string): Promise<{ codePath: string }> {
  return existsSync(BUILT) ? { codePath: BUILT } : cachedBundle(cacheDir);
}

/** The same with modules of interceptors, which the digest covers too, but not what those import. */
export async function cachedBundle(cacheDir: string, interceptors: string[] = []): Promise<{ codePath: string }> {
  const hash = createHash('sha256').update(await bundleDigest(ROOT));
  for (const file of interceptors) hash.update(await readFile(file));
  const codePath = path.join(cacheDir, `workflows-${hash.digest('hex').slice(0, 32)}.js`);
  if (existsSync(codePath)) return { codePath };
  const code = await bundle(path.join(ROOT, 'workflows', 'index.ts'), interceptors);
  await mkdir(cacheDir, { recursive: true });
  // Several workers may do this at once: each writes a file of its own and renames it; the content is the same.
  const draft = `${codePath}.${randomUUID()}`;
  await writeFile(draft, code);
  await rename(draft, codePath);
  return { codePath };
}

/**
 * Bundles a module whose exports are the workflow types, with modules of interceptors. All workflows of a thread share its
 * modules, which are loaded once and frozen; otherwise each workflow would load its own, which takes 45 KB and a
 * millisecond. So no variable of a module may hold a workflow's state (check-workflow-bundle.ts).
 */
export async function bundle(workflowsPath: string, interceptors: string[] = []): Promise<string> {
  const logger = new DefaultLogger('WARN');
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: interceptors,
    preloadModules: [workflowsPath],
    logger,
  });
  return code;
}
