// PgBouncer, the real program, which this repository does not bring along.
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { chooseAccount } from '../../dev/postgres-folder.ts';
import { spawnTied } from '../../dev/spawn-tied.ts';
import { afterFile } from './after-file.ts';
import { scratchDir } from './scratch.ts';
import { freePort } from './servers.ts';

/** The program: what TEST_PGBOUNCER names, else `pgbouncer` of the PATH. */
const PROGRAM = process.env['TEST_PGBOUNCER'] || 'pgbouncer';

/** Its version, such as `[1, 18]`; undefined if there is none. */
export function pgBouncerVersion(): [major: number, minor: number] | undefined {
  try {
    const text = execFileSync(PROGRAM, ['--version'], { encoding: 'utf8' });
    const [, major, minor] = /PgBouncer (\d+)\.(\d+)/.exec(text) ?? [];
    return [Number(major), Number(minor)];
  } catch {
    return undefined;
  }
}

/**
 * Starts it in transaction mode and stops it after the file.
 * @param settings of its section `pgbouncer`
 * @returns the URL of the same database through it
 */
export async function startPgBouncer(databaseUrl: string, settings: Record<string, string | number>): Promise<string> {
  const dir = scratchDir();
  await mkdir(dir);
  await chmod(dir, 0o755);
  const port = await freePort();
  const { hostname, port: target, username, password } = new URL(databaseUrl);
  const of = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    pool_mode: 'transaction',
    ...settings,
  };
  const lines = [
    '[databases]',
    `* = host=${hostname} port=${target} user=${username} password=${decodeURIComponent(password)}`,
    '[pgbouncer]',
    'auth_type = any',
    ...Object.entries(of).map(([name, value]) => `${name} = ${value}`),
  ];
  const file = path.join(dir, 'pgbouncer.ini');
  await writeFile(file, `${lines.join('\n')}\n`);
  // It refuses to run as root.
  const account = await chooseAccount(dir);
  const { stop } = await spawnTied(PROGRAM, [file], {
    stopPlan: [{ signal: 'SIGINT', waitMs: 1_000 }],
    output: 'ignore',
    ...(account && { uid: account.uid, gid: account.gid }),
  });
  afterFile(stop);
  const url = new URL(databaseUrl);
  url.port = String(port);
  return url.href;
}
