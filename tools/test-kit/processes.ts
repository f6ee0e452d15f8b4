// Hosts and workers as separate processes, started like `npm run host` and `npm run worker`.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { startNodeProcess } from '../../dev/node-process.ts';
import type { Exit } from '../../dev/spawn-tied.ts';
import { afterFile } from './after-file.ts';
import { keepLog } from './failed-file.ts';
import { callerOf, type TestCaller } from './host.ts';
import { scratchDir } from './scratch.ts';
import { freePort } from './servers.ts';
import { withSharedBundles } from './shared-caches.ts';
import { type LogLine, SETTINGS, type SystemServers } from './system.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const GRACE_MS = 15_000;

/** A host or worker process. It is stopped after the file, and ends when the test process ends. */
export interface OurProcess {
  pid: number;
  /** Resolves when it has ended, for any reason. */
  exited: Promise<Exit>;
  kill(signal: NodeJS.Signals): void;
  /** Sends SIGTERM and waits for the exit. */
  stop(): Promise<Exit>;
  /** Its log so far, one parsed line each. */
  logs(): Promise<LogLine[]>;
  /** Its output so far. */
  output(): Promise<string>;
}

/** A listening host process. */
export interface HostProcess extends OurProcess {
  url: string;
  as(user: string): TestCaller;
}

/** Starts processes that use given servers. */
export interface Processes {
  /** The environment of all. */
  env: NodeJS.ProcessEnv;
  host(env?: NodeJS.ProcessEnv): Promise<HostProcess>;
  worker(env?: NodeJS.ProcessEnv): Promise<OurProcess>;
}

/** Starts processes that use these servers. Stops them and deletes their files after the file. */
export async function processesOn(servers: Omit<SystemServers, 'client'>, modelUrl: string): Promise<Processes> {
  const dir = scratchDir();
  await withSharedBundles(dir);
  afterFile((kept) => kept !== undefined && keepLogs(kept, dir));
  const common = {
    PATH: process.env['PATH'],
    DATABASE_URL: servers.databaseUrl,
    TEMPORAL_ADDRESS: servers.address,
    TEMPORAL_NAMESPACE: servers.namespace,
    OPENAI_API_KEY: 'test',
    OPENAI_BASE_URL: modelUrl,
    PERDURE_MODEL: 'openai/test',
    PERDURE_DIR: dir,
    PERDURE_HEARTBEAT_TIMEOUT: `${SETTINGS.heartbeatTimeoutMs}ms`,
  };
  let count = 0;
  const start = async (kind: 'host' | 'worker', env: NodeJS.ProcessEnv): Promise<OurProcess> => {
    count += 1;
    const name = `${kind}-${count}`;
    const entry = path.join(ROOT, kind, 'main.ts');
    const options = { name, entry, logDir: dir, graceMs: GRACE_MS, say: () => {} };
    const { pid, exited, stop } = await startNodeProcess({ ...options, env: { ...common, ...env } });
    afterFile(stop);
    const output = () => readFile(path.join(dir, `${name}.log`), 'utf8');
    const logs = async () => linesOf(await output());
    return { pid, exited, stop, logs, output, kill: (signal) => void process.kill(pid, signal) };
  };
  return {
    env: common,
    worker: (env = {}) => start('worker', env),
    host: async (env = {}) => {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      return { ...(await start('host', { PORT: String(port), ...env })), url, as: (user) => callerOf(url, user) };
    },
  };
}

/** Keeps the logs of all processes, also of those that did not get ready. */
async function keepLogs(kept: string, dir: string): Promise<void> {
  for (const file of await readdir(dir)) {
    if (file.endsWith('.log'))
      await keepLog(kept, path.basename(file, '.log'), await readFile(path.join(dir, file), 'utf8'));
  }
}

function linesOf(text: string): LogLine[] {
  const lines = text.split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line) as LogLine);
}
