// The chat page's files. Built from web/ by Vite where they are missing or older than their sources.
import { createHash } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..');
const WEB = path.join(ROOT, 'web');
/** Where the host looks for the page. */
const PAGE = path.join(WEB, 'dist');
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'perdure');
/** Beside the page's files, what they were made from. */
const STAMP = '.made-from';

/**
 * Builds the page unless it is there and made from what is here now.
 * @returns whether it had to be built
 */
export async function buildPage(): Promise<boolean> {
  const digest = await digestOfSources();
  if ((await readFile(path.join(PAGE, STAMP), 'utf8').catch(() => '')) === digest) return false;
  const fresh = path.join(CACHE, `page-${process.pid}`);
  try {
    await viteBuild(fresh);
    await writeFile(path.join(fresh, STAMP), digest);
    await replace(PAGE, fresh);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return true;
}

async function viteBuild(outDir: string): Promise<void> {
  // Both take a while to load, and the page is mostly built already.
  const [{ build }, { default: react }] = await Promise.all([import('vite'), import('@vitejs/plugin-react')]);
  await build({
    root: WEB,
    configFile: false,
    logLevel: 'warn',
    plugins: [react()],
    build: { outDir, emptyOutDir: true, target: 'baseline-widely-available' },
  });
}

/** Puts one folder in the place of another: never half of it, and of two that do so at once the last one stays. */
async function replace(dir: string, fresh: string): Promise<void> {
  const old = `${fresh}.old`;
  if (existsSync(dir)) await rename(dir, old);
  await rename(fresh, dir);
  await rm(old, { recursive: true, force: true });
}

/** Of everything that the page is made of: its own files, the domain's, the versions of packages, and how it is built. */
async function digestOfSources(): Promise<string> {
  const files = globSync(['web/**/*.{ts,tsx,css,html,svg}', 'domain/*.ts', 'dev/build-page.ts', 'package-lock.json'], {
    cwd: ROOT,
    exclude: (name) => /\.test\.tsx?$/.test(name) || name.startsWith('web/dist'),
  }).toSorted();
  const hash = createHash('sha256');
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(await readFile(path.join(ROOT, file)))
      .update('\0');
  return hash.digest('hex');
}

if (import.meta.main) console.log((await buildPage()) ? 'the chat page is built' : 'the chat page is up to date');
