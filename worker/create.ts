import { randomUUID } from 'node:crypto';
import { Client, type Connection } from '@temporalio/client';
import type { ActivityInterceptorsFactory, NativeConnection } from '@temporalio/worker';
import type pg from 'pg';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { ActivityContext, ActivitySettings, Hooks } from '../activities/activity-context.ts';
import { Admission } from '../activities/admission/admission.ts';
import type { StreamBounds } from '../activities/admission/stream-limit.ts';
import { WaitingSlots } from '../activities/admission/waiting-slots.ts';
import { CodesOnlyInterceptor } from '../activities/codes-only-interceptor.ts';
import { HeadStarts } from '../activities/head-starts/head-starts.ts';
import { initiativeActivities } from '../activities/initiative-activities.ts';
import { sessionActivities } from '../activities/session-activities.ts';
import { streamStatements } from '../activities/streaming/stream-statements.ts';
import { StreamWriter } from '../activities/streaming/stream-writer.ts';
import { workerMetrics } from '../activities/worker-metrics.ts';
import type { AgentRegistry } from '../agent/loading/agent-registry.ts';
import type { Models } from '../agent/models/models.ts';
import type { Bus } from '../bus/bus.ts';
import { countBus } from '../bus/count-bus.ts';
import { InitiativeWaker } from '../client/initiatives/initiative-waker.ts';
import { Initiatives } from '../client/initiatives/initiatives.ts';
import type { ShowUser } from '../config/show-user.ts';
import { Contents } from '../store/contents.ts';
import type { LostWork } from '../store/leases.ts';
import { currentRun } from './current-run.ts';
import { failActivity } from './fail-activity.ts';
import { initiativeCalls } from './initiative-calls.ts';
import { Lease } from './leases/lease.ts';
import { checkForStuck } from './periodic/check-for-stuck.ts';
import { erasing } from './periodic/erasing.ts';
import { expirySweep, type RetentionSettings } from './periodic/expiry-sweep.ts';
import { indexQueued } from './periodic/index-queued.ts';
import { repeat, type Task } from './periodic/repeat.ts';
import { replayAsked } from './periodic/replay-asked.ts';
import { sweepChangedInitiatives, sweepInitiatives } from './periodic/sweep-initiatives.ts';
import { sweepRuns } from './periodic/sweep-runs.ts';
import { sweepTasks } from './periodic/sweep-tasks.ts';
import { cachedSessions } from './sandbox/cached-sessions.ts';
import { createWarmWorker } from './sandbox/warm-worker.ts';
import { WorkflowCache } from './sandbox/workflow-cache.ts';
import { LagMeter } from './slots/lag-meter.ts';
import { WaitingTurns } from './slots/waiting-turns.ts';
import { WorkflowSlots } from './slots/workflow-slots.ts';
import { countWakes, watchAdmission, watchWork } from './watch-work.ts';
import { hidingMcpSecrets, notingAway, workerMcp } from './worker-mcp.ts';

/** A step holds its activity slot for as long as the model streams, so there have to be many. */
const ACTIVITY_SLOTS = 1_000;
/** Short database work. */
const LOCAL_ACTIVITY_SLOTS = 100;
const WORKFLOW_SLOTS = { cached: 8, replayed: 3, waiting: LOCAL_ACTIVITY_SLOTS };
/** A check for stuck sessions follows every fifth interval of the sweeper. */
const SWEEPS_PER_STUCK_CHECK = 5;
/** Expired rows are deleted once a minute, or every 60 sweeps if that is sooner. */
const RETENTION = { intervalMs: 60_000, sweeps: 60 };

const TELL_MS = 500;

const asIs = (text: string) => text;

/** Times in milliseconds. */
interface WorkerSettings extends StreamBounds {
  /** Of the sessions. */
  taskQueue: string;
  sweepIntervalMs: number;
  shutdownGraceMs: number;
  /** A worker that does not renew its lease for this long is lost. */
  leaseMs: number;
  /** Memory for the workflows of idle sessions. */
  sessionCacheBytes: number;
  /** Tools of MCP servers that have changed since an agent first saw them are left out. */
  refuseChangedTools: boolean;
  /** Longest file that is kept of a tool's result. */
  maxFileBytes: number;
  /** Activities at once; default 1,000. */
  activitySlots?: number;
}

/** The parts of a worker; the caller closes them. */
export interface WorkerParts {
  connection: NativeConnection;
  /** For the sweeper. */
  clientConnection: Connection;
  namespace: string;
  db: pg.Pool;
  /** Postgres for the worker's lease, which has a connection of its own. */
  directDatabaseUrl: string;
  bus: Bus;
  agents: AgentRegistry;
  models: Models;
  log: Logger;
  settings: ActivitySettings & RetentionSettings & WorkerSettings;
  workflowBundle: { codePath: string } | { code: string };
  /** Of attachments; default: those in Postgres. */
  contents?: Contents;
  hooks?: Hooks;
  /** Removes secrets from a text. */
  hide?: (text: string) => string;
  /** A user's id as Temporal gets it; default: as it is. */
  showUser?: ShowUser;
  registry?: Registry;
}

/** A worker for sessions: `run` settles after `shutdown`, when running work has ended or the grace period is over. */
export interface SessionWorker {
  run(): Promise<void>;
  shutdown(): void;
  /** Whether steps or tool calls are running. */
  isBusy(): boolean;
  /** After `shutdown`, when nothing runs any more: others need not find out that this worker is gone. `run` does the same. */
  endLease(): Promise<void>;
}

/**
 * Creates a worker; it polls nothing before `run`. Connects to the MCP servers of its agents.
 * @throws {DefinitionError} two tools of an agent have one name, or the package for MCP is not installed
 */
export async function createWorker(parts: WorkerParts): Promise<SessionWorker> {
  const { bus, db, log, settings, registry = new Registry() } = parts;
  const cache = new WorkflowCache();
  const lag = new LagMeter();
  const waker = wakerOf(parts);
  const context = activityContext(parts, { registry, lag, waker });
  const { admission, mcp } = context;
  const { activitySlots = ACTIVITY_SLOTS } = settings;
  const headStarts = new HeadStarts(context, cache, new WaitingSlots(admission, Math.ceil(activitySlots / 2)));
  let lease: Lease | undefined;
  const underLease: ActivityInterceptorsFactory = (activity) => lease?.interceptor(activity) ?? {};
  await using opened = new AsyncDisposableStack();
  opened.defer(() => mcp.close());
  opened.defer(() => waker.close());
  await mcp.start();
  const slots = new WorkflowSlots(WORKFLOW_SLOTS);
  const options = optionsOf(parts, { context, headStarts, underLease, slots });
  const worker = await createWarmWorker(options, { cache, slots }, log);
  countBus(bus, registry);
  watchWork(db, registry);
  watchAdmission(admission, registry);
  const waiting = new WaitingTurns({ admission, bus, db });
  const tasks = [
    ...tasksOf(parts, { woken: countWakes(registry), waiting, worker: context.worker }),
    ...notingAway(mcp, parts, context.worker),
  ];
  const closing = opened.move();
  let headStartsEnd: Promise<void> | undefined;
  const stopHeadStarts = () => (headStartsEnd ??= headStarts.stop(settings.shutdownGraceMs));
  let leaseEnd: Promise<void> | undefined;
  const endLease = () => (leaseEnd ??= stopHeadStarts().then(() => lease?.close()));
  return {
    shutdown: () => {
      void stopHeadStarts();
      worker.shutdown();
    },
    isBusy: () => headStarts.isBusy || worker.getStatus().numInFlightActivities > 0,
    endLease,
    run: async () => {
      lease = leaseOf(parts, context.worker, (work) => headStarts.takeOver(work));
      const stopping = new AbortController();
      const repeated = tasks.map((task) => repeat(task, log, stopping.signal));
      lag.watch((sample) => admission.note(sample), stopping.signal);
      try {
        await worker.run();
      } finally {
        stopping.abort();
        await Promise.all([...repeated, endLease()]);
        await closing.disposeAsync();
      }
    },
  };
}

function tasksOf(
  { clientConnection, namespace, settings, ...parts }: WorkerParts,
  { woken, waiting, worker }: { woken: () => void; waiting: WaitingTurns; worker: string },
): Task[] {
  const client = new Client({ connection: clientConnection, namespace });
  const { taskQueue, workspaces } = settings;
  const { showUser = asIs } = parts;
  const deps = { ...parts, woken, client, worker, taskQueue, showUser, workspaces, settings };
  const { sweepIntervalMs: intervalMs } = settings;
  const stuckIntervalMs = intervalMs * SWEEPS_PER_STUCK_CHECK;
  return [
    { name: 'sweeping', intervalMs, run: () => sweepRuns(deps) },
    { name: 'telling of children that are over', intervalMs, run: () => sweepTasks(deps) },
    { name: 'waking initiatives', intervalMs, run: () => sweepInitiatives(deps) },
    { name: 'checking the status of initiatives', intervalMs, run: () => sweepChangedInitiatives(deps) },
    { name: 'telling of waiting turns', intervalMs: TELL_MS, run: () => waiting.tell() },
    { name: 'checking for stuck sessions', intervalMs: stuckIntervalMs, run: (signal) => checkForStuck(deps, signal) },
    { name: 'indexing messages for the search', intervalMs, run: (signal) => indexQueued(parts.db, signal) },
    { name: 'replaying', intervalMs, run: (signal) => replayAsked(deps, signal) },
    { name: 'erasing', intervalMs, run: erasing(deps) },
    {
      name: 'deleting expired rows',
      intervalMs: Math.min(RETENTION.intervalMs, intervalMs * RETENTION.sweeps),
      run: expirySweep(parts.db, contentsOf(parts), settings),
    },
  ];
}

function wakerOf({ clientConnection, namespace, settings, log, showUser = asIs }: WorkerParts): InitiativeWaker {
  const temporal = new Client({ connection: clientConnection, namespace });
  return new InitiativeWaker({ temporal, taskQueue: settings.taskQueue, showUser }, log);
}

function streamsOf({ db, bus, settings }: WorkerParts): StreamWriter {
  return new StreamWriter(streamStatements(db, bus), { ms: settings.saveBufferMs });
}

function contentsOf({ db, contents }: Pick<WorkerParts, 'db' | 'contents'>): Contents {
  return contents ?? new Contents(db);
}

function activityContext(
  parts: WorkerParts,
  { registry, lag, waker }: { registry: Registry; lag: LagMeter; waker: InitiativeWaker },
): ActivityContext {
  const metrics = workerMetrics(registry);
  const contents = contentsOf(parts);
  const hide = hidingMcpSecrets(parts.agents, parts.hide ?? asIs);
  const { db, bus, clientConnection: connection, namespace } = parts;
  const temporal = new Client({ connection, namespace });
  const initiatives = new Initiatives({ db, readDb: db, bus, waker, workspaces: parts.settings.workspaces });
  return {
    worker: randomUUID(),
    db: parts.db,
    contents,
    bus: parts.bus,
    streams: streamsOf(parts),
    agents: parts.agents,
    mcp: workerMcp(parts, { contents, hide, metrics, registry }),
    models: parts.models,
    log: parts.log,
    hooks: parts.hooks ?? {},
    hide,
    showUser: parts.showUser ?? asIs,
    currentRun: (sessionId) => currentRun(temporal, sessionId),
    initiativeCalls: (caller) => initiativeCalls(initiatives, parts.db, caller),
    metrics: {
      ...metrics,
      written: (seconds) => {
        metrics.written(seconds);
        lag.wrote(seconds);
      },
    },
    admission: new Admission(parts.settings),
    settings: parts.settings,
  };
}

function leaseOf(
  { clientConnection, namespace, directDatabaseUrl, settings, agents, log }: WorkerParts,
  worker: string,
  takeOver: (work: LostWork) => void,
): Lease {
  const client = new Client({ connection: clientConnection, namespace });
  const { leaseMs } = settings;
  return new Lease({
    ...{ worker, connectionString: directDatabaseUrl, leaseMs, log },
    agents: agents.list().map(({ id }) => id),
    failActivity: (token) => failActivity(client, token),
    takeOver,
  });
}

/** What this file gives the SDK's worker. */
interface Inside {
  context: ActivityContext;
  headStarts: HeadStarts;
  underLease: ActivityInterceptorsFactory;
  slots: WorkflowSlots;
}

function optionsOf(
  parts: WorkerParts,
  { context, headStarts, underLease, slots }: Inside,
): Parameters<typeof createWarmWorker>[0] {
  const { log, settings } = parts;
  return {
    connection: parts.connection,
    namespace: parts.namespace,
    taskQueue: settings.taskQueue,
    workflowBundle: parts.workflowBundle,
    activities: { ...sessionActivities(context, headStarts), ...initiativeActivities(context) },
    interceptors: {
      activity: [underLease, ({ info }) => ({ inbound: new CodesOnlyInterceptor(log, info) })],
    },
    tuner: {
      workflowTaskSlotSupplier: slots,
      activityTaskSlotSupplier: { type: 'fixed-size', numSlots: settings.activitySlots ?? ACTIVITY_SLOTS },
      localActivityTaskSlotSupplier: { type: 'fixed-size', numSlots: LOCAL_ACTIVITY_SLOTS },
      nexusTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
    },
    maxCachedWorkflows: cachedSessions(settings.sessionCacheBytes),
    // The server gives a task to every open poll of a frozen worker, and each is lost until it times out: so one poll for
    // activities and two for workflows, one on the sticky and one on the shared queue. Most steps need no poll: they are
    // dispatched eagerly, in the response to the workflow task.
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 1 },
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
    // Sessions of a dead worker go to another one after this time.
    stickyQueueScheduleToStartTimeout: '1s',
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    shutdownGraceTime: settings.shutdownGraceMs,
  };
}
