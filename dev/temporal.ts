// A Temporal development server: process and settings. Loopback only, ends with this process.
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { parse } from 'yaml';
import { grpcInterceptors } from '../config/grpc-interceptors.ts';
import { DevError } from './error.ts';
import { awaitEnded, writePidFile } from './pid-file.ts';
import { choosePort, freePort, isPortFree, type PortChoice } from './ports.ts';
import { spawnTied, type TiedProcess } from './spawn-tied.ts';
import { findTemporalCli } from './temporal-cli.ts';

/** A running Temporal development server. */
export type RunningTemporal = {
  /** host:port of the frontend. */
  address: string;
  /** Undefined if headless. */
  uiUrl: string | undefined;
  port: number;
  uiPort: number | undefined;
  pid: number;
  exited: TiedProcess['exited'];
  stop(): Promise<void>;
};

type TemporalOptions = {
  /** Folder of the log. */
  dir: string;
  /** PERDURE_DIR, whose `bin` is one of the caches of the executable; default: `dir`. */
  cacheDir?: string;
  /** Default: any free port. */
  port?: PortChoice;
  uiPort?: PortChoice;
  /** No web UI. */
  headless?: boolean;
  /** Created at start, in addition to `default`. */
  namespaces?: readonly string[];
  /** Stores its database in `dir`; otherwise in memory. */
  durable?: boolean;
  /** Keywords registered in every namespace. */
  searchAttributes?: readonly string[];
  /** Without deploy/temporal-dynamic.yaml: with the server's own default settings. */
  defaultSettings?: boolean;
  /** Added to deploy/temporal-dynamic.yaml. */
  dynamicConfig?: Readonly<Record<string, string | number | boolean>>;
  env?: NodeJS.ProcessEnv;
  /** Takes lines for the user. */
  log?: (line: string) => void;
};

/** Server settings that keep Perdure's latency low; production servers use the same file. */
const DYNAMIC_CONFIG = readFileSync(new URL('../deploy/temporal-dynamic.yaml', import.meta.url), 'utf8');

const STOP_PLAN = [{ signal: 'SIGTERM', waitMs: 10_000 }] as const;
const READY_MS = 120_000;
const POLL_MS = 20;
const MAX_TRIES = 5;
const ADDRESS_TAKEN = /address already in use/;

/**
 * Starts the development server and waits until its frontend serves.
 * @throws {DevError} PortTaken, AlreadyRunning, TemporalCliMissing, TemporalFailed
 */
export async function startTemporal(options: TemporalOptions): Promise<RunningTemporal> {
  const dir = path.resolve(options.dir);
  const log = options.log ?? (() => {});
  const cli = await findTemporalCli(path.resolve(options.cacheDir ?? dir), options.env ?? process.env, log);
  await mkdir(dir, { recursive: true });
  const pidFile = path.join(dir, 'temporal.pid');
  // Two servers would corrupt the database file, which has no lock of its own.
  await awaitEnded(pidFile, ['start-dev', dir]);
  const logFile = path.join(dir, 'temporal.log');
  for (let tries = 1; ; tries += 1) {
    const port = await choosePort('Temporal', options.port ?? freePort);
    const uiPort = options.headless ? undefined : await choosePort("Temporal's UI", options.uiPort ?? freePort);
    const server = await launch(cli, argsOf(options, port, uiPort), logFile, options.env);
    await writePidFile(pidFile, server.pid);
    const address = `127.0.0.1:${port}`;
    try {
      await awaitReady(server, address, logFile);
    } catch (error) {
      await server.stop();
      // Another process took the port, or one of those that the server chooses itself.
      if (tries < MAX_TRIES && ADDRESS_TAKEN.test(String(error))) continue;
      throw error;
    }
    const uiUrl = uiPort === undefined ? undefined : `http://127.0.0.1:${uiPort}`;
    const stop = async () => void (await server.stop());
    return { address, uiUrl, port, uiPort, pid: server.pid, exited: server.exited, stop };
  }
}

function argsOf(options: TemporalOptions, port: number, uiPort: number | undefined): string[] {
  const ours = options.defaultSettings ? {} : dynamicSettings();
  const dynamicConfig = { ...ours, ...options.dynamicConfig };
  return [
    ...['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port), '--log-level', 'warn'],
    ...(uiPort === undefined ? ['--headless'] : ['--ui-port', String(uiPort), '--ui-disable-news-fetch']),
    ...(options.namespaces ?? []).flatMap((name) => ['--namespace', name]),
    ...(options.durable ? ['--db-filename', path.join(path.resolve(options.dir), 'temporal.db')] : []),
    ...(options.searchAttributes ?? []).flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    ...Object.entries(dynamicConfig).flatMap(([key, value]) => [
      '--dynamic-config-value',
      `${key}=${JSON.stringify(value)}`,
    ]),
  ];
}

/** Keys and values of deploy/temporal-dynamic.yaml, which has one value per key and no constraints. */
export function dynamicSettings(): Record<string, string | number | boolean> {
  const settings = parse(DYNAMIC_CONFIG) as Record<string, [{ value: string | number | boolean }]>;
  return Object.fromEntries(Object.entries(settings).map(([key, [{ value }]]) => [key, value]));
}

async function launch(cli: string, args: string[], logFile: string, env?: NodeJS.ProcessEnv): Promise<TiedProcess> {
  const output = openSync(logFile, 'w');
  try {
    return await spawnTied(cli, args, { stopPlan: STOP_PLAN, output, ...(env && { env }) });
  } finally {
    closeSync(output);
  }
}

/** Waits for the frontend: the UI's port answers earlier. */
async function awaitReady(server: TiedProcess, address: string, logFile: string): Promise<void> {
  const deadline = Date.now() + READY_MS;
  let ended = false;
  void server.exited.then(() => (ended = true));
  while (!(await serves(address))) {
    if (ended || Date.now() > deadline) {
      const lines = readFileSync(logFile, 'utf8').trimEnd().split('\n');
      // A stack trace may follow the reason.
      const reason = lines.find((line) => ADDRESS_TAKEN.test(line)) ?? lines.slice(-5).join('\n');
      throw new DevError('TemporalFailed', `the Temporal server did not come up: ${reason}\n(log: ${logFile})`);
    }
    await delay(POLL_MS);
  }
}

async function serves(address: string): Promise<boolean> {
  // gRPC retries a refused connection after a second; checking for a listener first is faster.
  if (await isPortFree(Number(address.split(':')[1]))) return false;
  const connection = Connection.lazy({ address, connectTimeout: 1_000, interceptors: grpcInterceptors() });
  try {
    await connection.withDeadline(Date.now() + 1_000, () => connection.workflowService.getSystemInfo({}));
    return true;
  } catch {
    return false;
  } finally {
    await connection.close();
  }
}
