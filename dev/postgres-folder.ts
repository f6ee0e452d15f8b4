// The folder of an embedded Postgres: `data` (the cluster, or a link to it), `password`, `postgres.log`.
import { createHash, randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, readFile, realpath, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { canReach, REACHABLE_DIR, type Account } from './postgres-binaries.ts';

/**
 * The account for Postgres if this process is root: the owner of an existing cluster, else `postgres`, else `nobody`.
 * Undefined if it is not root: Postgres then runs as the same user.
 */
export async function chooseAccount(dir: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = (await readFile('/etc/passwd', 'utf8'))
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((account) => account.name !== '' && account.uid > 0);
  const owner = await stat(path.join(dir, 'data')).catch(() => undefined);
  const wanted = [
    (account: Account) => account.uid === owner?.uid,
    (account: Account) => account.name === 'postgres',
    (account: Account) => account.name === 'nobody',
  ];
  return wanted.map((fits) => accounts.find(fits)).find((account) => account !== undefined);
}

/**
 * Creates the folder and returns the path of the cluster: `data` in it or, if the account cannot reach that, a folder
 * elsewhere that `data` then links to.
 */
export async function locatePostgresFolder(dir: string, account: Account | undefined, log: (line: string) => void) {
  await makeFolder(dir);
  const data = path.join(dir, 'data');
  const existing = await realpath(data).catch(() => undefined);
  if (existing) return existing;
  if (account === undefined || canReach(account, dir)) return data;
  const name = createHash('sha256').update(dir).digest('hex').slice(0, 16);
  const elsewhere = path.join(REACHABLE_DIR, 'data', name);
  await makeFolder(path.dirname(elsewhere));
  await symlink(elsewhere, data);
  log(`${dir} is out of reach for user ${account.name}, keeping the database in ${elsewhere}`);
  return elsewhere;
}

/** The password of the cluster, created on first use and readable by this user only. */
export async function clusterPassword(dir: string): Promise<string> {
  const file = path.join(dir, 'password');
  const known = await readFile(file, 'utf8').catch(() => undefined);
  if (known) return known.trim();
  const password = randomBytes(24).toString('base64url');
  await writeFile(file, `${password}\n`, { mode: 0o600 });
  return password;
}

/** Gives a file or folder to the account. */
export async function giveTo(account: Account | undefined, file: string): Promise<void> {
  if (account) await chown(file, account.uid, account.gid);
}

/** Creates a folder and its missing parents so that other accounts can enter them, whatever the umask. */
async function makeFolder(dir: string): Promise<void> {
  const first = await mkdir(dir, { recursive: true });
  if (first === undefined) return;
  for (let made = dir; made.length >= first.length; made = path.dirname(made)) await chmod(made, 0o755);
}
