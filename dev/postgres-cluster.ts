import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { DevError } from './error.ts';
import type { Account } from './postgres-binaries.ts';
import { giveTo } from './postgres-folder.ts';

/** An existing cluster, or one to create. */
type Cluster = {
  data: string;
  user: string;
  password: string;
  /** Path of the executable. */
  initdb: string;
  account: Account | undefined;
  durable: boolean;
  log: (line: string) => void;
};

const MAJOR_VERSION = '18';

/**
 * Creates the cluster unless it exists.
 * @returns whether it was created
 * @throws {DevError} PostgresFailed if the existing folder cannot be used, or initdb fails
 */
export async function ensurePostgresCluster(cluster: Cluster): Promise<boolean> {
  const { data } = cluster;
  const version = await readFile(path.join(data, 'PG_VERSION'), 'utf8').catch(() => undefined);
  if (version?.trim() === MAJOR_VERSION) return false;
  if (version !== undefined) {
    throw new DevError(
      'PostgresFailed',
      `${data} holds data of Postgres ${version.trim()}, this is ${MAJOR_VERSION}: dump it with the old one, or use another PERDURE_DIR`,
    );
  }
  if (await stat(data).catch(() => undefined)) {
    throw new DevError('PostgresFailed', `${data} exists and is no Postgres cluster: move it away`);
  }
  cluster.log(`creating a database cluster in ${data}`);
  await createCluster(cluster);
  return true;
}

/** Creates it next to its final place and renames it when complete, so that an interruption leaves no partial cluster. */
async function createCluster(cluster: Cluster): Promise<void> {
  const { data, account } = cluster;
  const unfinished = `${data}.making`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  try {
    const passwordFile = path.join(unfinished, 'password');
    await writeFile(passwordFile, cluster.password, { mode: 0o600 });
    await giveTo(account, unfinished);
    await giveTo(account, passwordFile);
    await runInitdb(cluster, path.join(unfinished, 'data'), passwordFile);
    await rename(path.join(unfinished, 'data'), data);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

async function runInitdb(cluster: Cluster, data: string, passwordFile: string): Promise<void> {
  const { initdb, user, account, durable } = cluster;
  // The built-in locale sorts and folds case the same way on every machine.
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const access = ['--auth=scram-sha-256', `--username=${user}`, `--pwfile=${passwordFile}`];
  const rest = ['--no-instructions', `--pgdata=${data}`, ...(durable ? [] : ['--no-sync'])];
  const owner = account && { uid: account.uid, gid: account.gid };
  try {
    await promisify(execFile)(initdb, [...locale, ...access, ...rest], { cwd: '/', ...owner });
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    throw new DevError('PostgresFailed', `initdb failed: ${stderr?.trim() || message}`);
  }
}
