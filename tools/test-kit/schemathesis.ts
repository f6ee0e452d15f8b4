// Finds schemathesis, which generates requests from an OpenAPI document: in a cache, or installed there with pip.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

const REQUIREMENTS = path.resolve('test/campaign/schemathesis.requirements.txt');
const OLDEST_PYTHON = [3, 11] as const;

/** How a run ended. */
export interface SchemathesisRun {
  code: number | null;
  output: string;
}

/**
 * A folder with schemathesis. It is installed with `--target` and not into a virtual environment, because some systems have
 * python3 and pip without the module `venv`.
 * @throws {Error} naming what is missing
 */
export async function installSchemathesis(): Promise<string> {
  const python = pythonVersion();
  const digest = createHash('sha256')
    .update(await readFile(REQUIREMENTS))
    .digest('hex');
  const cache = path.join(process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'perdure');
  const folder = path.join(cache, `schemathesis-${digest.slice(0, 12)}-python-${python}`);
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(path.join(cache, 'install-'));
  try {
    const options = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:', '--require-hashes'];
    const { code, output } = await run('python3', [
      '-m',
      'pip',
      'install',
      ...options,
      '--target',
      work,
      '-r',
      REQUIREMENTS,
    ]);
    if (code !== 0) throw new Error(`pip could not install schemathesis, which this test needs:\n${output}`);
    // If two processes install at once, the second uses the folder of the first.
    await rename(work, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
    return folder;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs the schemathesis of a folder. */
export function schemathesis(folder: string, args: readonly string[], cwd: string): Promise<SchemathesisRun> {
  return run('python3', ['-m', 'schemathesis.cli', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: cwd, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1', NO_COLOR: '1' },
  });
}

function pythonVersion(): string {
  const asked = spawnSync('python3', ['-c', 'import sys, pip; print("%d.%d" % sys.version_info[:2])'], {
    encoding: 'utf8',
  });
  const [major = 0, minor = 0] = (asked.stdout ?? '').trim().split('.').map(Number);
  const [wantedMajor, wantedMinor] = OLDEST_PYTHON;
  if (major === wantedMajor && minor >= wantedMinor) return `${major}.${minor}`;
  const found = asked.error?.message ?? (asked.stderr.trim().split('\n').at(-1) || `python3 is ${asked.stdout.trim()}`);
  throw new Error(`schemathesis needs python3 (${OLDEST_PYTHON.join('.')} or newer) with pip on PATH: ${found}`);
}

function run(command: string, args: readonly string[], options: object = {}): Promise<SchemathesisRun> {
  const { promise, resolve, reject } = Promise.withResolvers<SchemathesisRun>();
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const end = () => child.kill('SIGKILL');
  process.once('exit', end);
  let output = '';
  child.stdout.on('data', (chunk) => void (output += String(chunk)));
  child.stderr.on('data', (chunk) => void (output += String(chunk)));
  child.on('error', reject);
  child.on('close', (code) => {
    process.removeListener('exit', end);
    resolve({ code, output });
  });
  return promise;
}
