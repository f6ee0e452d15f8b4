// The system under test: Postgres, Temporal, workers, hosts and a model server, all on loopback.
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type pg from 'pg';
import { parseConfig } from '../../config/config.ts';
import { registerSearchAttributesAt } from '../../config/search-attributes.ts';
import { startNodeProcess } from '../../dev/node-process.ts';
import { freePort } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { migrate } from '../../migrations/migrate.ts';
import { createPool } from '../../store/pool.ts';
import { Random } from '../test-kit/random.ts';
import { STALE_MS } from './crew.ts';
import { type Disk, mountDisk } from './disk.ts';
import { Links, type LinkTarget } from './links.ts';
import { type Model, startModel } from './model.ts';
import { Part } from './part.ts';
import { MODELS } from './plan.ts';
import { recordStates } from './recorded-states.ts';

export const NAMESPACE = 'default';
const WORKERS = 2;
const HOSTS = 2;
const WORKER_GRACE_MS = 4_000;
/** The windows in tokens. A conversation is compacted at 3 % of them (agents.ts), so it fits even if it cannot be compacted. */
const WINDOWS = {
  [MODELS.usual]: { context_limit: 100_000 },
  [MODELS.small]: { context_limit: 50_000 },
  [MODELS.tiny]: { context_limit: 1_000 },
};
/** Small, so that sessions continue as new several times in a campaign. */
const CONTINUE_AS_NEW_EVENTS = 120;

export interface World {
  /** Folder of the database and the workspaces; every process of the campaign names it. */
  dir: string;
  /** Folder of logs and evidence, which is kept. */
  keep: string;
  toolLog: string;
  databaseUrl: string;
  temporalAddress: string;
  db: pg.Pool;
  model: Model;
  postgres: Part;
  temporal: Part;
  workers: Part[];
  hosts: Part[];
  /** The server whose tools the agent uses. */
  mcp: Part;
  /** URLs of the hosts, through the users' links. */
  hostUrls: string[];
  /** All connections between the parts, and of users to hosts. */
  links: Links;
  /** Where Postgres keeps its files; undefined: this account may not mount one. */
  disk: Disk | undefined;
}

export interface WorldOptions {
  seed: number;
  keep: string;
  /** Runs on the migrated database before anything else is started. */
  prepare?(db: pg.Pool): Promise<void>;
  /** What a worker's process runs; default the product's own. */
  workerEntry?: string;
}

/** What is known of the processes of a system that is over. */
export interface Processes {
  /** The folder that they all name. */
  dir: string;
  /** Of all that ever ran. */
  pids: number[];
  /** How workers and hosts have exited by themselves. */
  exits: Pick<Part, 'name' | 'exits'>[];
}

/** Starts the system, calls `use` with it, and stops it. */
export async function withWorld<T>(
  { seed, keep, prepare, workerEntry }: WorldOptions,
  use: (world: World) => Promise<T>,
): Promise<{ result: T } & Processes> {
  await using stops = new AsyncDisposableStack();
  // Not made by mkdtemp: the account that Postgres runs under has to get into it.
  const dir = path.join(tmpdir(), `perdure-chaos-${randomUUID()}`);
  stops.defer(() => rm(dir, { recursive: true, force: true }));
  await mkdir(keep, { recursive: true });
  const { dir: cacheDir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
  const [pgPort, temporalPort] = [await freePort(), await freePort()];
  let databaseUrl = '';
  const postgresDir = path.join(dir, 'postgres');
  const disk = await mountDisk(postgresDir);
  if (disk) stops.defer(() => disk.unmount());
  const links = new Links();
  stops.defer(() => links.end());
  const postgres = new Part('postgres', async () => {
    const running = await startPostgres({ dir: postgresDir, port: pgPort });
    databaseUrl = running.url;
    return running;
  });
  const temporal = new Part('temporal', () =>
    startTemporal({ dir: path.join(dir, 'temporal'), cacheDir, headless: true, durable: true, port: temporalPort }),
  );
  const servers = [postgres, temporal];
  stops.defer(() => allDown(servers));
  await Promise.all([postgres.up(), temporal.up()]);
  const temporalAddress = `127.0.0.1:${temporalPort}`;
  await migrate(databaseUrl);
  await registerSearchAttributesAt({ address: temporalAddress }, NAMESPACE);
  const db = createPool(databaseUrl);
  stops.defer(() => db.end());
  await recordStates(db);
  await prepare?.(db);
  const model = await startModel(new Random(seed, 'model'));
  stops.defer(() => model.close());
  await writeFile(path.join(dir, 'models.json'), JSON.stringify(WINDOWS));
  const toolLog = path.join(keep, 'tools.jsonl');
  const mcpPort = await freePort();
  const mcpUrl = `http://127.0.0.1:${mcpPort}/mcp`;
  const env = environment({ databaseUrl, temporalAddress, modelUrl: model.url, cacheDir, dir, toolLog, mcpUrl });
  const ports: Record<Exclude<LinkTarget, 'host'>, number> = {
    postgres: pgPort,
    temporal: temporalPort,
    model: Number(new URL(model.url).port),
  };
  /** Environment of one process, which reaches every server through links of its own. */
  const linked = async (name: string): Promise<NodeJS.ProcessEnv> => {
    const through = async (to: keyof typeof ports, url: string) => {
      const { port } = await links.add(name, to, ports[to]);
      return url.replace(`:${ports[to]}`, `:${port}`);
    };
    return {
      DATABASE_URL: await through('postgres', databaseUrl),
      TEMPORAL_ADDRESS: await through('temporal', temporalAddress),
      OPENAI_BASE_URL: await through('model', model.url),
    };
  };
  const root = path.join(import.meta.dirname, '..', '..');
  const child = async (name: string, entry: string, more: NodeJS.ProcessEnv = {}) => {
    const own = { ...env, ...(await linked(name)), ...more };
    const options = { name, entry, env: own, logDir: keep, graceMs: WORKER_GRACE_MS, say: () => {} };
    return new Part(name, () => startNodeProcess(options), { mustRun: true });
  };
  const entry = workerEntry ?? path.join(root, 'worker', 'main.ts');
  const workers = await Promise.all(Array.from({ length: WORKERS }, (_, n) => child(`worker-${n + 1}`, entry)));
  const hostPorts = await Promise.all(Array.from({ length: HOSTS }, () => freePort()));
  const hosts = await Promise.all(
    hostPorts.map((port, n) => child(`host-${n + 1}`, path.join(root, 'host', 'main.ts'), { PORT: String(port) })),
  );
  const mcpEntry = path.join(import.meta.dirname, 'mcp-main.ts');
  const mcpEnv = { ...env, PORT: String(mcpPort) };
  const mcp = new Part('mcp', () =>
    startNodeProcess({
      name: 'mcp',
      entry: mcpEntry,
      env: mcpEnv,
      logDir: keep,
      graceMs: WORKER_GRACE_MS,
      say: () => {},
    }),
  );
  const processes = [...workers, ...hosts, mcp];
  stops.defer(() => allDown(processes));
  // The first worker builds the workflow bundle that the others use.
  await Promise.all([mcp.up(), workers[0]!.up()]);
  await Promise.all(processes.map((part) => part.up()));
  const hostLinks = await Promise.all(hostPorts.map((port) => links.add('users', 'host', port)));
  const hostUrls = hostLinks.map(({ port }) => `http://127.0.0.1:${port}`);
  const places = { dir, keep, toolLog, hostUrls, databaseUrl, temporalAddress };
  const result = await use({ ...places, postgres, temporal, workers, hosts, mcp, db, model, links, disk });
  await stops.disposeAsync();
  const pids = [...servers, ...processes].flatMap((part) => part.pids);
  return { result, dir, pids, exits: [...workers, ...hosts] };
}

async function allDown(parts: readonly Part[]): Promise<void> {
  await Promise.all(parts.map((part) => part.down()));
}

type Places = Record<
  'databaseUrl' | 'temporalAddress' | 'modelUrl' | 'cacheDir' | 'dir' | 'toolLog' | 'mcpUrl',
  string
>;

/** Environment of workers and hosts. */
function environment(places: Places): NodeJS.ProcessEnv {
  return {
    ...process.env,
    DATABASE_URL: places.databaseUrl,
    TEMPORAL_ADDRESS: places.temporalAddress,
    TEMPORAL_NAMESPACE: NAMESPACE,
    OPENAI_API_KEY: 'chaos',
    OPENAI_BASE_URL: places.modelUrl,
    PERDURE_MODEL: MODELS.usual,
    PERDURE_MODELS: path.join(places.dir, 'models.json'),
    PERDURE_AGENTS: path.join(import.meta.dirname, 'agents.ts'),
    PERDURE_DIR: places.cacheDir,
    PERDURE_WORKSPACES: path.join(places.dir, 'workspaces'),
    PERDURE_CONTINUE_AS_NEW_EVENTS: String(CONTINUE_AS_NEW_EVENTS),
    PERDURE_SHUTDOWN_GRACE: '2s',
    PERDURE_STALE_ASSIGNMENT: `${STALE_MS}ms`,
    PERDURE_STALE_PROGRESS: `${STALE_MS}ms`,
    CHAOS_TOOL_LOG: places.toolLog,
    CHAOS_MCP_URL: places.mcpUrl,
  };
}
