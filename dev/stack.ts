// Everything that `npm start` runs: Postgres and Temporal unless the environment names them, migrations, worker and host.
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseConfig, type Config, type Env } from '../config/config.ts';
import { requireDirectPostgres } from '../config/direct-postgres.ts';
import { registerSearchAttributesAt } from '../config/search-attributes.ts';
import { temporalConnectConfig } from '../config/temporal.ts';
import { withTemporal } from '../config/with-temporal.ts';
import { migrate } from '../migrations/migrate.ts';
import { missingSetting } from '../worker/startup/server-settings.ts';
import { withoutPassword } from './databases.ts';
import { DevError } from './error.ts';
import { keepRunning } from './keep-running.ts';
import { awaitPrevious, startNodeProcess } from './node-process.ts';
import { freePort, isPortFree, nextFreePort, type PortChoice } from './ports.ts';
import { startPostgres } from './postgres.ts';
import { checkServerSettings } from './server-check/check-server-settings.ts';
import { startTemporal } from './temporal.ts';
import { untilItWorks } from './until-it-works.ts';

/** The addresses of the running parts. */
export type Addresses = {
  page: string;
  api: string;
  temporal: string;
  temporalUi: string | undefined;
  postgres: string;
};

/** All parts, running. */
export type Stack = { addresses: Addresses; stop(): Promise<void> };

/** Paths of the programs of worker and host. */
export type Entries = { worker: string; host: string };

const program = (folder: string) =>
  path.join(import.meta.dirname, '..', folder, `main${path.extname(import.meta.filename)}`);

/** Those of this installation, source or built. */
export const OUR_ENTRIES: Entries = { worker: program('worker'), host: program('host') };

/** What starting a part needs. */
type Context = {
  config: Config;
  /** Prints a line about a part. */
  say: (part: string, line: string) => void;
  /** Stop functions of what runs: the programs are stopped before the servers that they use. */
  stops: Record<'programs' | 'servers', (() => Promise<void>)[]>;
  /** Aborts waiting for servers that cannot be reached. */
  signal: AbortSignal;
};

const PROGRAMS = ['worker', 'host'] as const;
const DEFAULT_POSTGRES_PORT = 15_432;
const DEFAULT_TEMPORAL_PORT = 7233;
const DEFAULT_TEMPORAL_UI_PORT = 8233;
const GRACE_MARGIN_MS = 5_000;
/** A stop without work in flight takes at most a second. */
const STOP_MS = 800;

/**
 * Starts all parts in order.
 * @throws {DevError | ConfigError} if a part does not start; the others are then stopped
 */
export async function startStack(
  env: Env,
  entries: Entries,
  say: Context['say'],
  signal: AbortSignal = new AbortController().signal,
): Promise<Stack> {
  const context: Context = { config: parseConfig(env), say, stops: { programs: [], servers: [] }, signal };
  try {
    return { addresses: await startAll(context, env, entries), stop: () => stopAll(context) };
  } catch (error) {
    await stopAll(context);
    throw error;
  }
}

/** Waits for the programs, whose work is in flight, and in the time that is left for the servers, whose watchers do the rest. */
async function stopAll({ stops: { programs, servers } }: Context): Promise<void> {
  const from = performance.now();
  await Promise.all(programs.splice(0).map((stop) => stop()));
  const left = Math.max(0, STOP_MS - (performance.now() - from));
  const stopped = Promise.all(servers.splice(0).map((stop) => stop()));
  await Promise.race([stopped, delay(left, undefined, { ref: false })]);
}

async function startAll(context: Context, env: Env, entries: Entries): Promise<Addresses> {
  const { config } = context;
  const logDir = path.join(config.dir, 'logs');
  // After a SIGKILL the previous ones may still be stopping and hold the port.
  for (const name of PROGRAMS) await awaitPrevious({ name, entry: entries[name], logDir });
  const port = await choosePort(context);
  const postgres = await startOrUsePostgres(context);
  const temporal = await startOrUseTemporal(context);
  const compiled = path.join(config.dir, 'cache', 'compiled');
  const childEnv: Env = {
    NODE_COMPILE_CACHE: compiled,
    ...env,
    PORT: String(port),
    PERDURE_DIR: config.dir,
    ...postgres.env,
    ...temporal.env,
  };
  const prepared = { ...context, config: parseConfig(childEnv) };
  await prepare(prepared);
  await startPrograms(context, childEnv, entries);
  // A server that was not started here may be one in production, into which nothing is written to find out.
  if (config.temporalAddress === undefined) void sayMissingSettings(prepared);
  const page = `http://${reachableName(config.host)}:${port}`;
  return {
    page: `${page}/`,
    api: `${page}/api`,
    temporal: temporal.address,
    temporalUi: temporal.uiUrl,
    postgres: withoutPassword(postgres.url),
  };
}

/** The name under which this machine reaches an address that a server is bound to. */
function reachableName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

async function choosePort({ config, say }: Context): Promise<number> {
  // Chosen here and not by the system: the host has the same one after a restart.
  if (config.port === 0) return freePort();
  if (await isPortFree(config.port, config.host)) return config.port;
  if (config.portIsSet) {
    throw new DevError('PortTaken', `PORT is ${config.port}, which is taken on ${config.host}: free it or set another`);
  }
  const port = await nextFreePort(config.port, config.host);
  say('host', `port ${config.port} is taken, using ${port} (PORT sets it)`);
  return port;
}

async function startOrUsePostgres({ config, say, stops }: Context) {
  if (config.databaseUrl !== undefined) {
    say('postgres', `using ${withoutPassword(config.databaseUrl)} (DATABASE_URL)`);
    return { url: config.databaseUrl, env: {} };
  }
  const log = (line: string) => say('postgres', line);
  let port: PortChoice = () => nextFreePort(DEFAULT_POSTGRES_PORT);
  const start = (signal: AbortSignal) => startPostgres({ dir: path.join(config.dir, 'postgres'), port, log, signal });
  const { part, stop } = await keepRunning('postgres', start, log);
  // A restart must use the port that the other parts know.
  port = part.port;
  stops.servers.push(stop);
  say('postgres', `ready on 127.0.0.1:${part.port}`);
  return { url: part.url, env: { DATABASE_URL: part.url, PERDURE_DIRECT_DATABASE_URL: part.directUrl } };
}

async function startOrUseTemporal({ config, say, stops }: Context) {
  if (config.temporalAddress !== undefined) {
    say('temporal', `using ${config.temporalAddress} (TEMPORAL_ADDRESS)`);
    return { address: config.temporalAddress, uiUrl: undefined, env: {} };
  }
  const namespace = config.temporalNamespace ?? 'default';
  const log = (line: string) => say('temporal', line);
  let port: PortChoice = () => nextFreePort(DEFAULT_TEMPORAL_PORT);
  let uiPort: PortChoice = () => nextFreePort(DEFAULT_TEMPORAL_UI_PORT);
  const options = {
    dir: path.join(config.dir, 'temporal'),
    cacheDir: config.dir,
    namespaces: [namespace],
    durable: true,
  };
  const { part, stop } = await keepRunning('temporal', () => startTemporal({ ...options, port, uiPort, log }), log);
  port = part.port;
  uiPort = part.uiPort ?? uiPort;
  stops.servers.push(stop);
  say('temporal', `ready on ${part.address}`);
  const uiUrl = config.temporalUi ?? part.uiUrl;
  const ui = uiUrl === undefined ? {} : { PERDURE_TEMPORAL_UI: uiUrl };
  return { ...part, env: { ...ui, TEMPORAL_ADDRESS: part.address, TEMPORAL_NAMESPACE: namespace } };
}

/** Migrates the schema and registers search attributes; waits for servers that cannot be reached. */
async function prepare({ config, say, signal }: Context): Promise<void> {
  const { databaseUrl, directDatabaseUrl: url = databaseUrl } = config;
  if (databaseUrl === undefined || url === undefined) throw new Error('no database by now');
  await untilItWorks(
    async () => {
      await requireDirectPostgres({ databaseUrl, directDatabaseUrl: url });
      // A developer's edits of store/sql may go back to an earlier text.
      await migrate(url, { replace: true });
    },
    (reason, wait) => say('migrations', `${withoutPassword(url)}: ${reason}, trying again in ${wait / 1000} s`),
    signal,
  );
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  await untilItWorks(
    () => withTemporal(connectionOptions, namespace, () => registerSearchAttributesAt(connectionOptions, namespace)),
    (reason, wait) => say('temporal', `${connectionOptions.address}: ${reason}, trying again in ${wait / 1000} s`),
    signal,
  );
  say('migrations', 'schema and search attributes are up to date');
}

/** Says which settings the Temporal server lacks, such as those that its version does not know. Never rejects. */
async function sayMissingSettings({ config, say, signal }: Context): Promise<void> {
  for (const finding of await checkServerSettings(temporalConnectConfig(config), config.taskQueue)) {
    if (finding.state === 'missing' && !signal.aborted) say('temporal', missingSetting(finding));
  }
}

async function startPrograms(
  { config, say, stops, signal: stopping }: Context,
  env: Env,
  entries: Entries,
): Promise<void> {
  const grace = config.shutdownGraceMs + GRACE_MARGIN_MS;
  const graces = { worker: grace, host: grace + config.drainDelayMs };
  const starting = PROGRAMS.map(async (name) => {
    const log = (line: string) => say(name, line);
    const process = {
      name,
      entry: entries[name],
      env,
      logDir: path.join(config.dir, 'logs'),
      graceMs: graces[name],
      say: log,
    };
    const { stop } = await keepRunning(
      name,
      (signal) => startNodeProcess({ ...process, signal: AbortSignal.any([signal, stopping]) }),
      log,
    );
    stops.programs.push(stop);
    say(name, 'ready');
  });
  // Waits for both before throwing, so that the other one is stopped, too.
  for (const result of await Promise.allSettled(starting)) if (result.status === 'rejected') throw result.reason;
}
