// The chat page's files. Built from web/ by Vite where they are missing or older than their sources.
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..', '..');
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
  // Whoever builds, a test too, gets the page that users get.
  const { NODE_ENV } = process.env;
  process.env['NODE_ENV'] = 'production';
  try {
    await build({
      root: WEB,
      configFile: false,
      logLevel: 'warn',
      plugins: [react()],
      build: { outDir, emptyOutDir: true, target: 'baseline-widely-available' },
    });
  } finally {
    if (NODE_ENV === undefined) delete process.env['NODE_ENV'];
    else process.env['NODE_ENV'] = NODE_ENV;
  }
}

/**
 * Moves a fresh page into the place of another, file by file: what the page refers to first, then the page, then the
 * stamp, and last goes what nothing refers to any more. So there is a whole page at every moment, also for two who do
 * this at once.
 */
async function replace(dir: string, fresh: string): Promise<void> {
  const names = (await filesIn(fresh)).toSorted((a, b) => rank(a) - rank(b));
  for (const name of names) {
    await mkdir(path.dirname(path.join(dir, name)), { recursive: true });
    await rename(path.join(fresh, name), path.join(dir, name));
  }
  for (const name of await filesIn(dir)) if (!names.includes(name)) await rm(path.join(dir, name), { force: true });
}

function rank(name: string): number {
  return ['index.html', STAMP].indexOf(name);
}

async function filesIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => path.relative(dir, path.join(entry.parentPath, entry.name)));
}

/** Of everything that the page is made of: its own files, the domain's, the versions of packages, and how it is built. */
async function digestOfSources(): Promise<string> {
  const files = globSync(
    ['web/**/*.{ts,tsx,css,html,svg}', 'domain/*.ts', 'tools/dev/build-page.ts', 'package-lock.json'],
    {
      cwd: ROOT,
      exclude: (name) => /\.test\.tsx?$/.test(name) || name.startsWith('web/dist'),
    },
  ).toSorted();
  const hash = createHash('sha256');
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(await readFile(path.join(ROOT, file)))
      .update('\0');
  return hash.digest('hex');
}

if (import.meta.main) console.log((await buildPage()) ? 'the chat page is built' : 'the chat page is up to date');
