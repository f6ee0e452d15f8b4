// `perdure init`: a small project with an agent, a test, a page and a compose file.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { composeOf } from './compose.ts';
import { packageJsonOf } from './package-json.ts';

const HELP = `perdure init: creates a small project in this folder: an agent with a tool, its test, a page with useChat, and
files to deploy it. It changes no file that exists, except package.json, to which it adds what is missing, and which it
makes one of ES modules.

usage: perdure init`;

const TEMPLATE = path.join(import.meta.dirname, 'template');
/** The root of the repository, or dist/ of the package. */
const ROOT = path.join(import.meta.dirname, '..', '..');
/** npm packs no files with these names. */
const DOTTED: Readonly<Record<string, string>> = {
  gitignore: '.gitignore',
  dockerignore: '.dockerignore',
  'env.development': '.env.development',
};
const DEPLOY = ['temporal-dynamic.yaml', 'temporal-namespace.sh', 'temporal-schema.sh'];

/** `perdure init`, in the working directory. */
export async function runInit(args: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) return console.log(HELP);
  const [unknown] = args;
  if (unknown !== undefined) {
    console.error(`perdure init: expected no "${unknown}": it creates the project in the working directory`);
    process.exit(2);
  }
  try {
    const written = await createProject(process.cwd());
    console.log(`created ${written.join(', ')}\n\n${NEXT}`);
  } catch (error) {
    console.error(`perdure init: ${(error as Error).message}`);
    process.exit(1);
  }
}

const NEXT = `next:
  npm install
  npm run dev    # Postgres, Temporal, worker, host and chat page; open the address that it prints
  npm test
  npm run page   # a chat page of your own, with useChat`;

/**
 * Writes the project's files.
 * @returns their names
 * @throws {Error} naming the files that exist already; nothing is written then
 */
export async function createProject(folder: string): Promise<string[]> {
  const files = await projectFiles(folder);
  const existing = Object.keys(files).filter((name) => name !== 'package.json' && existsSync(path.join(folder, name)));
  if (existing.length > 0) throw new Error(`${existing.join(', ')}: expected a folder without these files`);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  return Object.keys(files);
}

/** Contents by name. */
async function projectFiles(folder: string): Promise<Record<string, string>> {
  const own = JSON.parse(await readFile(packageFile(), 'utf8')) as Parameters<typeof packageJsonOf>[1];
  const before = await readFile(path.join(folder, 'package.json'), 'utf8').catch(() => undefined);
  const manifest = packageJsonOf(before, own, path.basename(folder));
  const isModule = before === undefined || (JSON.parse(before) as { type?: string }).type === 'module';
  if (!isModule && (await readdir(folder)).some(isScript)) {
    throw new Error(
      'package.json: expected "type": "module", or a folder without .js files, which may be CommonJS modules',
    );
  }
  const entries = await readdir(TEMPLATE, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(TEMPLATE, path.join(entry.parentPath, entry.name)));
  const files: Record<string, string> = { 'package.json': `${JSON.stringify(manifest, null, 2)}\n` };
  for (const name of names.toSorted()) {
    files[DOTTED[name] ?? name] = await readFile(path.join(TEMPLATE, name), 'utf8');
  }
  files['compose.yaml'] = composeOf(await readFile(path.join(ROOT, 'docker-compose.yml'), 'utf8'), manifest.name);
  files['.env.example'] = await readFile(path.join(ROOT, '.env.example'), 'utf8');
  for (const name of DEPLOY) files[`deploy/${name}`] = await readFile(path.join(ROOT, 'deploy', name), 'utf8');
  return files;
}

/** This version's package.json: beside dist/ in the package. */
function packageFile(): string {
  const beside = path.join(ROOT, 'package.json');
  return existsSync(beside) ? beside : path.join(ROOT, '..', 'package.json');
}

function isScript(name: string): boolean {
  return name.endsWith('.js');
}
