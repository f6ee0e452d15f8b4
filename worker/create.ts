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
import { Erasures } from './erasures.ts';
import { repeat } from './repeat.ts';
import { type RetentionSettings, sweepExpired } from './retention.ts';
import { StuckCheck } from './stuck.ts';
import { Sweeper } from './sweeper.ts';
import { createWarmWorker } from './warm-worker.ts';
import { workflowSlots } from './workflow-slots.ts';

/** A step holds its activity slot for as long as the model streams, so there have to be many. */
const ACTIVITY_SLOTS = 1_000;
/** Short database work. */
const LOCAL_ACTIVITY_SLOTS = 100;
const WORKFLOW_SLOTS = { cached: 8, replayed: 3 };
/** A check for stuck sessions follows every fifth interval of the sweeper. */
const SWEEPS_PER_STUCK_CHECK = 5;
const RETENTION_INTERVAL_MS = 60_000;
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
  const { log, settings, registry = new Registry() } = parts;
  const worker = await createWarmWorker(optionsOf(parts, registry), log);
  const client = new Client({ connection: parts.clientConnection, namespace: parts.namespace });
  countBus(parts.bus, registry);
  watchWork(parts.db, registry);
  const { db, bus } = parts;
  const { sweepIntervalMs } = settings;
  const sweeper = new Sweeper({ db, client, log, woken: countWakes(registry) });
  const stuck = new StuckCheck({ db, bus, client, log });
  const erasures = new Erasures({ db, client, log, workspaces: settings.workspaces });
  return {
    shutdown: () => worker.shutdown(),
    run: async () => {
      const stopping = new AbortController();
      const periodic = [
        repeat(sweepIntervalMs, () => sweeper.run(), stopping.signal),
        repeat(sweepIntervalMs * SWEEPS_PER_STUCK_CHECK, (signal) => stuck.run(signal), stopping.signal),
        repeat(sweepIntervalMs, () => erasures.run(), stopping.signal),
        repeat(RETENTION_INTERVAL_MS, (signal) => sweepExpired({ db, log, settings }, signal), stopping.signal),
      ];
      try {
        await worker.run();
      } finally {
        stopping.abort();
        await Promise.all(periodic);
      }
    },
  };
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
