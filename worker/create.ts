import { Client, type Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import type pg from 'pg';
import { Registry } from 'prom-client';
import { sessionActivities } from '../activities/activities.ts';
import type { ActivitySettings, Hooks } from '../activities/context.ts';
import { CodesOnlyInterceptor } from '../activities/failures.ts';
import { countBus, countWakes, watchWork } from '../activities/process-metrics.ts';
import { workerMetrics } from '../activities/metrics.ts';
import type { Models } from '../agent/models.ts';
import type { AgentRegistry } from '../agent/registry.ts';
import type { Bus } from '../bus/bus.ts';
import { TASK_QUEUE } from '../workflows/definitions.ts';
import { carryOutErasures } from './erasures.ts';
import { repeat, type Task } from './repeat.ts';
import { expirySweep, type RetentionSettings } from './retention.ts';
import { checkForStuck } from './stuck.ts';
import { sweepRuns } from './sweeper.ts';
import { createWarmWorker } from './warm-worker.ts';
import { workflowSlots } from './workflow-slots.ts';

/** A step holds its activity slot for as long as the model streams, so there have to be many. */
const ACTIVITY_SLOTS = 1_000;
/** Short database work. */
const LOCAL_ACTIVITY_SLOTS = 100;
const WORKFLOW_SLOTS = { cached: 8, replayed: 3 };
/** A check for stuck sessions follows every fifth interval of the sweeper. */
const SWEEPS_PER_STUCK_CHECK = 5;
/** Expired rows are deleted once a minute, or every 60 sweeps if that is sooner. */
const RETENTION = { intervalMs: 60_000, sweeps: 60 };
/** 0.42 MB each. */
const CACHED_SESSIONS = 1_000;

/** The parts of a worker; the caller closes them. */
export interface WorkerParts {
  connection: NativeConnection;
  /** For the sweeper. */
  clientConnection: Connection;
  namespace: string;
  db: pg.Pool;
  bus: Bus;
  agents: AgentRegistry;
  models: Models;
  log: Logger;
  settings: ActivitySettings & RetentionSettings & { sweepIntervalMs: number; shutdownGraceMs: number };
  workflowBundle: { codePath: string } | { code: string };
  hooks?: Hooks;
  /** Removes secrets from a text. */
  hide?: (text: string) => string;
  registry?: Registry;
}

/** A worker for sessions: `run` settles after `shutdown`, when running work has ended or the grace period is over. */
export interface SessionWorker {
  run(): Promise<void>;
  shutdown(): void;
}

/** Creates a worker; it polls nothing before `run`. */
export async function createWorker(parts: WorkerParts): Promise<SessionWorker> {
  const { bus, db, log, registry = new Registry() } = parts;
  const worker = await createWarmWorker(optionsOf(parts, registry), log);
  countBus(bus, registry);
  watchWork(db, registry);
  const tasks = tasksOf(parts, countWakes(registry));
  return {
    shutdown: () => worker.shutdown(),
    run: async () => {
      const stopping = new AbortController();
      const repeated = tasks.map((task) => repeat(task, log, stopping.signal));
      try {
        await worker.run();
      } finally {
        stopping.abort();
        await Promise.all(repeated);
      }
    },
  };
}

function tasksOf({ clientConnection, namespace, settings, ...parts }: WorkerParts, woken: () => void): Task[] {
  const client = new Client({ connection: clientConnection, namespace });
  const deps = { ...parts, client, woken, workspaces: settings.workspaces };
  const { sweepIntervalMs: intervalMs } = settings;
  const stuckIntervalMs = intervalMs * SWEEPS_PER_STUCK_CHECK;
  return [
    { name: 'sweeping', intervalMs, run: () => sweepRuns(deps) },
    { name: 'checking for stuck sessions', intervalMs: stuckIntervalMs, run: (signal) => checkForStuck(deps, signal) },
    { name: 'erasing', intervalMs, run: (signal) => carryOutErasures(deps, signal) },
    {
      name: 'deleting expired rows',
      intervalMs: Math.min(RETENTION.intervalMs, intervalMs * RETENTION.sweeps),
      run: expirySweep(parts.db, settings),
    },
  ];
}

function optionsOf(parts: WorkerParts, registry: Registry): Parameters<typeof createWarmWorker>[0] {
  const { log, settings } = parts;
  return {
    connection: parts.connection,
    namespace: parts.namespace,
    taskQueue: TASK_QUEUE,
    workflowBundle: parts.workflowBundle,
    activities: sessionActivities({
      db: parts.db,
      bus: parts.bus,
      agents: parts.agents,
      models: parts.models,
      log,
      hooks: parts.hooks ?? {},
      hide: parts.hide ?? ((text) => text),
      metrics: workerMetrics(registry),
      settings,
    }),
    interceptors: {
      activity: [({ info }) => ({ inbound: new CodesOnlyInterceptor(log, info) })],
    },
    tuner: {
      workflowTaskSlotSupplier: workflowSlots(WORKFLOW_SLOTS),
      activityTaskSlotSupplier: { type: 'fixed-size', numSlots: ACTIVITY_SLOTS },
      localActivityTaskSlotSupplier: { type: 'fixed-size', numSlots: LOCAL_ACTIVITY_SLOTS },
      nexusTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
    },
    maxCachedWorkflows: CACHED_SESSIONS,
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
