// Builds the chat page from web/ with Vite if its files are missing or older than their sources.
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..', '..');
const WEB = path.join(ROOT, 'web');
/** The host serves the page from here. */
const PAGE = path.join(WEB, 'dist');
const CACHE = path.join(ROOT, 'node_modules', '.cache', 'perdure');
/** The chat page; the console, which has files of its own; the page of the frame that draws diagrams. */
const PAGES = ['index.html', 'console/index.html', 'diagram/index.html'];
/** A file next to the page's files, with the digest of their sources. */
const STAMP = '.built-from';

/**
 * Builds the page unless it exists and its sources are unchanged.
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

/** Of the fonts of formulas only the format that every browser of today reads. */
const newestFonts = {
  name: 'newest-fonts',
  enforce: 'pre' as const,
  transform(code: string, id: string) {
    if (!id.endsWith('/katex/dist/katex.min.css')) return undefined;
    return code.replaceAll(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\([^)]*\)/g, '');
  },
};

async function viteBuild(outDir: string): Promise<void> {
  // Imported late: both load slowly, and the page is usually built already.
  const [{ build }, { default: react }] = await Promise.all([import('vite'), import('@vitejs/plugin-react')]);
  // Also builds the production page when a test runs it.
  const { NODE_ENV } = process.env;
  process.env['NODE_ENV'] = 'production';
  try {
    await build({
      root: WEB,
      configFile: false,
      logLevel: 'warn',
      plugins: [react(), newestFonts],
      build: {
        // The page's Content-Security-Policy allows no fonts within style sheets.
        ...{ outDir, emptyOutDir: true, target: 'baseline-widely-available', assetsInlineLimit: 0 },
        // How much the page loads is limited by a test, compressed.
        chunkSizeWarningLimit: 2_000,
        rolldownOptions: { input: PAGES.map((page) => path.join(WEB, page)) },
      },
    });
  } finally {
    if (NODE_ENV === undefined) delete process.env['NODE_ENV'];
    else process.env['NODE_ENV'] = NODE_ENV;
  }
}

/**
 * Replaces the page file by file: first the files it refers to, then the page, then the stamp; unused files are deleted
 * last. So the page is complete at every moment, even if two processes do this at once.
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
  return [...PAGES, STAMP].indexOf(name);
}

async function filesIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => path.relative(dir, path.join(entry.parentPath, entry.name)));
}

/** Digest of everything the page is built from: its files, domain/, the versions of packages, and this file. */
async function digestOfSources(): Promise<string> {
  const files = globSync(
    ['web/**/*.{ts,tsx,css,html,svg}', 'domain/**/*.ts', 'tools/scripts/build-page.ts', 'package-lock.json'],
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
