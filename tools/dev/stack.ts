// Everything that `npm start` runs: Postgres and Temporal unless they are given, migrations, worker and host.
import path from 'node:path';
import { parseConfig, type Config, type Env } from '../../config/config.ts';
import { registerSearchAttributesAt } from '../../config/search-attributes.ts';
import { temporalConnectConfig } from '../../config/temporal.ts';
import { migrate } from '../../migrations/migrate.ts';
import { withoutPassword } from './databases.ts';
import { DevError } from './error.ts';
import { keepRunning } from './keep-running.ts';
import { awaitPrevious, startNodeProcess } from './node-process.ts';
import { isPortFree, nextFreePort, type PortChoice } from './ports.ts';
import { startPostgres } from './postgres.ts';
import { startTemporal } from './temporal.ts';
import { untilItWorks } from './until-it-works.ts';

/** Where everything is, once it is up. */
export type Addresses = {
  page: string;
  api: string;
  temporal: string;
  temporalUi: string | undefined;
  postgres: string;
};

/** Everything, running. */
export type Stack = { addresses: Addresses; stop(): Promise<void> };

/** The programs of worker and host. */
export type Entries = { worker: string; host: string };

/** What the bringing up of each part needs. */
type Context = {
  config: Config;
  /** Takes a line for the terminal, about the part of this name. */
  say: (part: string, line: string) => void;
  /** How to stop what is up, in the order in which it came up. */
  stops: (() => Promise<void>)[];
  /** Ends the waiting for servers that are away. */
  signal: AbortSignal;
};

const PROGRAMS = ['worker', 'host'] as const;
const DEFAULT_POSTGRES_PORT = 15_432;
const DEFAULT_TEMPORAL_PORT = 7233;
const DEFAULT_TEMPORAL_UI_PORT = 8233;
const SPARE_GRACE_MS = 5_000;

/**
 * Brings everything up, one part after the other.
 * @throws {DevError | ConfigError} when a part cannot start; those that did are stopped again
 */
export async function startStack(
  env: Env,
  entries: Entries,
  say: Context['say'],
  signal: AbortSignal = new AbortController().signal,
): Promise<Stack> {
  const context: Context = { config: parseConfig(env), say, stops: [], signal };
  const stop = async () => {
    for (const stopPart of context.stops.splice(0).toReversed()) await stopPart();
  };
  try {
    return { addresses: await bringUp(context, env, entries), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function bringUp(context: Context, env: Env, entries: Entries): Promise<Addresses> {
  const { config } = context;
  const logDir = path.join(config.dir, 'logs');
  // After a SIGKILL the earlier ones may still be stopping, on the port that we want.
  for (const name of PROGRAMS) await awaitPrevious({ name, entry: entries[name], logDir });
  const port = await choosePort(context);
  const postgres = await bringUpPostgres(context);
  const temporal = await bringUpTemporal(context);
  const childEnv: Env = { ...env, PORT: String(port), PERDURE_DIR: config.dir, ...postgres.env, ...temporal.env };
  await prepare({ ...context, config: parseConfig(childEnv) });
  await bringUpPrograms(context, childEnv, entries);
  const page = `http://${reachableName(config.host)}:${port}`;
  return {
    page: `${page}/`,
    api: `${page}/api`,
    temporal: temporal.address,
    temporalUi: temporal.uiUrl,
    postgres: withoutPassword(postgres.url),
  };
}

/** How this machine calls an address that a server is bound to. */
function reachableName(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

async function choosePort({ config, say }: Context): Promise<number> {
  if (await isPortFree(config.port, config.host)) return config.port;
  if (config.portIsSet) {
    throw new DevError('PortTaken', `PORT is ${config.port}, which is taken on ${config.host}: free it or set another`);
  }
  const port = await nextFreePort(config.port, config.host);
  say('host', `port ${config.port} is taken, using ${port} (PORT sets it)`);
  return port;
}

async function bringUpPostgres({ config, say, stops }: Context) {
  if (config.databaseUrl !== undefined) {
    say('postgres', `using ${withoutPassword(config.databaseUrl)} (DATABASE_URL)`);
    return { url: config.databaseUrl, env: {} };
  }
  const log = (line: string) => say('postgres', line);
  let port: PortChoice = () => nextFreePort(DEFAULT_POSTGRES_PORT);
  const start = () => startPostgres({ dir: path.join(config.dir, 'postgres'), port, log });
  const { part, stop } = await keepRunning('postgres', start, log);
  // Should it have to be started again, then where the others know it.
  port = part.port;
  stops.push(stop);
  say('postgres', `ready on 127.0.0.1:${part.port}`);
  return { url: part.url, env: { DATABASE_URL: part.url, PERDURE_DIRECT_DATABASE_URL: part.directUrl } };
}

async function bringUpTemporal({ config, say, stops }: Context) {
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
  stops.push(stop);
  say('temporal', `ready on ${part.address}`);
  return { ...part, env: { TEMPORAL_ADDRESS: part.address, TEMPORAL_NAMESPACE: namespace } };
}

/** Brings schema and search attributes up to date; waits for servers that do not answer. */
async function prepare({ config, say, signal }: Context): Promise<void> {
  const { databaseUrl } = config;
  if (databaseUrl === undefined) throw new Error('no database by now');
  await untilItWorks(
    // A developer's edits of store/sql may go back to an earlier text.
    () => migrate(databaseUrl, { replace: true }),
    (reason, wait) => say('migrations', `${withoutPassword(databaseUrl)}: ${reason}, trying again in ${wait / 1000} s`),
    signal,
  );
  const { connectionOptions, namespace } = temporalConnectConfig(config);
  await untilItWorks(
    () => registerSearchAttributesAt(connectionOptions, namespace),
    (reason, wait) => say('temporal', `${connectionOptions.address}: ${reason}, trying again in ${wait / 1000} s`),
    signal,
  );
  say('migrations', 'schema and search attributes are up to date');
}

async function bringUpPrograms({ config, say, stops }: Context, env: Env, entries: Entries): Promise<void> {
  const grace = config.shutdownGraceMs + SPARE_GRACE_MS;
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
    const { stop } = await keepRunning(name, () => startNodeProcess(process), log);
    stops.push(stop);
    say(name, 'ready');
  });
  // Both are settled before one's failure is told, so that the other is stopped too.
  for (const result of await Promise.allSettled(starting)) if (result.status === 'rejected') throw result.reason;
}
