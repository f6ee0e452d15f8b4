import { spawn } from 'node:child_process';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { DevError } from './error.ts';
import type { Account } from './postgres-binaries.ts';
import { giveTo } from './postgres-folder.ts';

/** A cluster to be, or one that is. */
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
 * Makes the cluster unless it exists; tells whether it was made.
 * @throws {DevError} PostgresFailed when what is there cannot be used, or initdb fails
 */
export async function ensureCluster(cluster: Cluster): Promise<boolean> {
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
  cluster.log(`making a database cluster in ${data}`);
  await makeCluster(cluster);
  return true;
}

/** Makes it beside its place and moves it there when complete: whatever interrupts this leaves no half of one. */
async function makeCluster(cluster: Cluster): Promise<void> {
  const { data, account } = cluster;
  const making = `${data}.making`;
  await rm(making, { recursive: true, force: true });
  await mkdir(making, { mode: 0o700 });
  try {
    const passwordFile = path.join(making, 'password');
    await writeFile(passwordFile, cluster.password, { mode: 0o600 });
    await giveTo(account, making);
    await giveTo(account, passwordFile);
    await runInitdb(cluster, path.join(making, 'data'), passwordFile);
    await rename(path.join(making, 'data'), data);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

async function runInitdb(cluster: Cluster, data: string, passwordFile: string): Promise<void> {
  const { initdb, user, account, durable } = cluster;
  // The built-in locale sorts and folds the same on every machine, whatever locales it has.
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const access = ['--auth=scram-sha-256', `--username=${user}`, `--pwfile=${passwordFile}`];
  const rest = ['--no-instructions', `--pgdata=${data}`, ...(durable ? [] : ['--no-sync'])];
  const child = spawn(initdb, [...locale, ...access, ...rest], {
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(account && { uid: account.uid, gid: account.gid }),
  });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()));
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (code !== 0) throw new DevError('PostgresFailed', `initdb failed: ${complaint.trim()}`);
}
