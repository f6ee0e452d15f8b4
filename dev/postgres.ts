// An embedded Postgres: cluster, process, password. Loopback only, scram only, ends with this process.
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { createDatabase, databaseUrl } from './databases.ts';
import { DevError } from './error.ts';
import { choosePort, freePort, type PortChoice } from './ports.ts';
import { postgresBinaries, type Account } from './postgres-binaries.ts';
import { ensurePostgresCluster } from './postgres-cluster.ts';
import { chooseAccount, clusterPassword, locatePostgresFolder } from './postgres-folder.ts';
import { awaitPostgresLock } from './postgres-lock.ts';
import { spawnTied, type TiedProcess } from './spawn-tied.ts';

/** A running Postgres. The URLs contain the password of the superuser `perdure` and name the database `perdure`. */
export type RunningPostgres = {
  url: string;
  /** URL for LISTEN: the same, since there is no pooler. */
  directUrl: string;
  port: number;
  pid: number;
  exited: TiedProcess['exited'];
  /** Fast shutdown: rolls back open transactions. */
  stop(): Promise<void>;
};

type PostgresOptions = {
  /** Its folder: cluster, password, log. */
  dir: string;
  /** Default: any free port. */
  port?: PortChoice;
  /** Takes lines for the user. */
  log?: (line: string) => void;
  /** Ends the wait for processes of a server that was killed. */
  signal?: AbortSignal;
  /** For tests: faster, but loses data if the machine crashes. */
  ephemeral?: boolean;
};

const USER = 'perdure';
const STOP_PLAN = [
  { signal: 'SIGINT', waitMs: 20_000 },
  { signal: 'SIGQUIT', waitMs: 5_000 },
] as const;
const READY_MS = 120_000;
const POLL_MS = 20;
/** Postgres' message if processes of a killed server use its memory. They end by themselves, unless they hang. */
const STILL_IN_USE = /pre-existing shared memory block .* is still in use/;
const RELEASED_MS = 60_000;
const RETRY_MS = 200;
const SETTINGS = ['max_connections=300', 'unix_socket_directories=', 'listen_addresses=127.0.0.1'];
const EPHEMERAL_SETTINGS = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'autovacuum_naptime=10s'];

/**
 * Starts Postgres on the cluster in `dir`, which the first start creates.
 * @throws {DevError} PortTaken, PostgresInUse, PostgresFailed
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const dir = path.resolve(options.dir);
  const log = options.log ?? (() => {});
  const account = await chooseAccount(dir);
  const binaries = await postgresBinaries(account, log);
  const data = await locatePostgresFolder(dir, account, log);
  const password = await clusterPassword(dir);
  const isNew = await ensurePostgresCluster({
    data,
    user: USER,
    password,
    initdb: binaries.initdb,
    account,
    durable: !options.ephemeral,
    log,
  });
  await awaitPostgresLock(data);
  const port = await choosePort('Postgres', options.port ?? freePort);

  const logFile = path.join(dir, 'postgres.log');
  const settings = [...SETTINGS, `port=${port}`, ...(options.ephemeral ? EPHEMERAL_SETTINGS : [])];
  const serverUrl = `postgres://${USER}:${password}@127.0.0.1:${port}/postgres`;
  const launched = async () => {
    const server = await launch(binaries.postgres, data, settings, logFile, account);
    try {
      await awaitReady(server, serverUrl, logFile);
      if (isNew || !(await hasDatabase(serverUrl, USER))) await createDatabase(serverUrl, USER);
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  };
  const server = await onceReleased(launched, log, options.signal);
  const url = databaseUrl(serverUrl, USER);
  const stop = async () => void (await server.stop());
  return { url, directUrl: url, port, pid: server.pid, exited: server.exited, stop };
}

/** Starts the server again and again while processes of one that was killed are still attached to its shared memory. */
async function onceReleased(
  start: () => Promise<TiedProcess>,
  log: (line: string) => void,
  signal?: AbortSignal,
): Promise<TiedProcess> {
  const deadline = Date.now() + RELEASED_MS;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await start();
    } catch (error) {
      if (!STILL_IN_USE.test(String(error)) || Date.now() > deadline) throw error;
    }
    if (attempt === 0) log('waiting until the processes of a Postgres that was killed have ended');
    await delay(RETRY_MS, undefined, { signal });
  }
}

async function launch(
  postgres: string,
  data: string,
  settings: string[],
  logFile: string,
  account: Account | undefined,
): Promise<TiedProcess> {
  const output = openSync(logFile, 'w');
  try {
    return await spawnTied(postgres, ['-D', data, ...settings.flatMap((setting) => ['-c', setting])], {
      stopPlan: STOP_PLAN,
      output,
      cwd: '/',
      ...(account && { uid: account.uid, gid: account.gid }),
    });
  } finally {
    closeSync(output);
  }
}

/** Waits until the server accepts connections. */
async function awaitReady(server: TiedProcess, url: string, logFile: string): Promise<void> {
  const deadline = Date.now() + READY_MS;
  let ended = false;
  void server.exited.then(() => (ended = true));
  for (;;) {
    const refusal = await tryConnect(url);
    if (refusal === undefined) return;
    if (ended || Date.now() > deadline || refusal === '28P01') {
      const reason = refusal === '28P01' ? 'it refuses the password in its folder' : lastLines(logFile);
      throw new DevError('PostgresFailed', `Postgres did not come up: ${reason}\n(log: ${logFile})`);
    }
    await delay(POLL_MS);
  }
}

/** The error code; undefined if the connection worked. */
async function tryConnect(connectionString: string): Promise<string | undefined> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return undefined;
  } catch (error) {
    return (error as { code?: string }).code ?? 'unknown';
  } finally {
    await client.end().catch(() => {});
  }
}

async function hasDatabase(serverUrl: string, name: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    return (await client.query('SELECT FROM pg_database WHERE datname = $1', [name])).rowCount === 1;
  } finally {
    await client.end();
  }
}

function lastLines(file: string): string {
  return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
}
