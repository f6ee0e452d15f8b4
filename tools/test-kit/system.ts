// A worker with its bus, database and a scripted model, on existing servers. Independent of the test runner.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type pg from 'pg';
import { type Logger, pino } from 'pino';
import { Registry } from 'prom-client';
import type { AgentDefinition } from '../../agent/definition/define.ts';
import { agentRegistry, type AgentRegistry } from '../../agent/loading/agent-registry.ts';
import { createModels, type ModelSettings, type Models } from '../../agent/models/models.ts';
import type { Bus } from '../../bus/bus.ts';
import { createPostgresBus } from '../../bus/postgres.ts';
import { grpcInterceptors } from '../../config/grpc-interceptors.ts';
import { DEFAULT_TASK_QUEUE } from '../../domain/task-queue.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { Contents } from '../../store/contents.ts';
import type { S3Options } from '../../store/s3.ts';
import { createWorker, type SessionWorker, type WorkerParts } from '../../worker/create.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { useOwnWorkflowThreads } from '../../worker/sandbox/own-workflow-threads.ts';
import { say } from './model-actions.ts';
import { type ModelScript, type ModelServer, startModelServer } from './model-server.ts';
import type { FreshNamespace } from './namespaces.ts';
import { patientPool } from './patient-pool.ts';

export interface RuntimeOptions {
  script?: ModelScript;
  /** Unset: the scripted model. */
  defaultModel?: string;
  agents?: readonly AgentDefinition[];
  /** Limits of models; those of others are large. */
  catalog?: ModelSettings['catalog'];
  /** How long a provider may be silent. */
  providerIdleMs?: number;
  /** Providers besides the scripted one. */
  providers?: ModelSettings['providers'];
  settings?: Partial<WorkerParts['settings']>;
  /** Removes secrets from what tools bring. */
  hide?: (text: string) => string;
  hooks?: WorkerParts['hooks'];
  /** The bucket for attachments; unset: they are in Postgres. */
  s3?: S3Options;
}

/** A parsed line of a worker's log. */
export type LogLine = Record<string, unknown> & { msg: string; level: number };

/** A migrated database, and a namespace with the search attributes. */
export interface SystemServers extends FreshNamespace {
  databaseUrl: string;
}

/** A running system, without client and host. */
export interface TestRuntime {
  databaseUrl: string;
  db: pg.Pool;
  bus: Bus;
  address: string;
  namespace: string;
  temporal: Client;
  model: ModelServer;
  models: Models;
  agents: AgentRegistry;
  workspaces: string;
  /** The settings of its workers. */
  settings: WorkerParts['settings'];
  logs: LogLine[];
  log: Logger;
  /** The metrics of the first worker. */
  registry: Registry;
  worker: SessionWorker;
  /** Starts another worker on the same servers. */
  startWorker(options?: MoreOptions): Promise<RunningWorker>;
  /** The first worker, so that it can be stopped separately. */
  first: RunningWorker;
  /** Stops everything except the servers. */
  stop(): Promise<void>;
}

/** Options of another worker, such as older workflow code and its own metrics. */
type MoreOptions = Pick<RuntimeOptions, 'agents' | 'settings'> &
  Partial<Pick<WorkerParts, 'workflowBundle' | 'registry'>>;

/** A running worker. */
export interface RunningWorker {
  worker: SessionWorker;
  stop(): Promise<void>;
}

/** Settings of the tests' workers. */
export const SETTINGS = {
  taskQueue: DEFAULT_TASK_QUEUE,
  idleCloseMs: 7 * 86_400_000,
  staleAssignmentMs: 30 * 60_000,
  staleProgressMs: 30 * 60_000,
  continueAsNewEvents: 300,
  leaseMs: 750,
  // A busy worker may be late. Work of one that has died is found by its lease, except what had just begun.
  heartbeatTimeoutMs: 20_000,
  saveOn: 'chunk' as 'chunk' | 'step' | 'turn',
  saveBufferMs: 30,
  saveBufferSize: 64,
  providerAttempts: 6,
  trustOwnInstructions: false,
  refuseChangedTools: false,
  maxFileBytes: 20 * 1024 ** 2,
  sweepIntervalMs: 1_000,
  retentionRefusalsMs: 86_400_000,
  retentionOutputsMs: 86_400_000,
  shutdownGraceMs: 1_000,
  maxSubagents: 16,
  maxStreams: 1_000,
  maxLagMs: 10_000,
  sessionCacheBytes: 64 * 1024 ** 2,
};

/** Starts a worker with a database and a namespace. */
export async function startSystem(servers: SystemServers, options: RuntimeOptions = {}): Promise<TestRuntime> {
  quietRuntime();
  // As the worker program does: half the CPU per workflow.
  useOwnWorkflowThreads();
  const { databaseUrl, address, namespace, client } = servers;
  const workspaces = await mkdtemp(path.join(tmpdir(), 'perdure-workspaces-'));
  const model = await startModelServer(options.script ?? (() => [say('fine')]));
  const db = patientPool(databaseUrl);
  const bus = createPostgresBus({ connectionString: databaseUrl });
  const settings = { ...SETTINGS, workspaces, ...options.settings };
  const registry = new Registry();
  const logs: LogLine[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void logs.push(JSON.parse(line) as LogLine) });
  const models = createModels({
    openaiApiKey: 'test',
    openaiBaseUrl: model.url,
    defaultModel: options.defaultModel ?? 'openai/test',
    providerIdleMs: options.providerIdleMs,
    ...(options.catalog && { catalog: options.catalog }),
    providers: options.providers,
  });
  const started: RunningWorker[] = [];

  const startWorker: TestRuntime['startWorker'] = async (more = {}) => {
    const connection = await NativeConnection.connect({ address });
    const clientConnection = await Connection.connect({ address, interceptors: grpcInterceptors() });
    const worker = await createWorker({
      connection,
      clientConnection,
      namespace,
      db,
      directDatabaseUrl: databaseUrl,
      bus,
      agents: agentRegistry(more.agents ?? options.agents ?? [siteBuilder]),
      models,
      log,
      ...(options.hide && { hide: options.hide }),
      ...(options.hooks && { hooks: options.hooks }),
      ...(options.s3 && { contents: new Contents(db, options.s3) }),
      registry: more.registry ?? (started.length === 0 ? registry : new Registry()),
      settings: { ...settings, ...more.settings },
      workflowBundle: more.workflowBundle ?? (await workflowBundle(path.resolve('node_modules/.cache/perdure'))),
    });
    const running = worker.run();
    let stopping: Promise<void> | undefined;
    const stop = async () => {
      worker.shutdown();
      await running;
      await Promise.all([connection.close(), clientConnection.close()]);
    };
    const handle = { worker, stop: () => (stopping ??= stop()) };
    started.push(handle);
    return handle;
  };

  const first = await startWorker();
  const stopAll = async () => {
    await Promise.all(started.map((each) => each.stop()));
    await model.close();
    await bus.close();
    await db.end();
    await rm(workspaces, { recursive: true, force: true });
  };
  return {
    databaseUrl,
    db,
    bus,
    address,
    namespace,
    temporal: client,
    model,
    models,
    agents: agentRegistry(options.agents ?? [siteBuilder]),
    workspaces,
    settings,
    logs,
    log,
    registry,
    worker: first.worker,
    startWorker,
    first,
    stop: stopAll,
  };
}
