import { Client, type Connection } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
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
import { StuckWatch } from './stuck.ts';
import { Sweeper } from './sweeper.ts';
import { useOwnWorkflowThreads } from './workflow-threads.ts';

/** A stream holds an activity slot for as long as the model speaks, so there have to be many. */
const ACTIVITY_SLOTS = 1_000;
/**
 * Workflow tasks that are at work together share one thread. When another worker dies, each of its sessions is replayed: of
 * forty at once, a tenth of a second each, none was done before its task timed out, nor at the next try.
 */
const WORKFLOW_SLOTS = 8;
/** Stuck sessions are looked for so much more rarely than forgotten messages. */
const SWEEPS_A_LOOK = 5;
/** 0.42 MB each. */
const CACHED_SESSIONS = 1_000;

/** What a worker is made of; all of it stays the caller's to close. */
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
  settings: ActivitySettings & { sweepIntervalMs: number; shutdownGraceMs: number };
  workflowBundle: { codePath: string } | { code: string };
  hooks?: Hooks;
  /** Takes secrets out of a text. */
  hide?: (text: string) => string;
  registry?: Registry;
}

/** A worker of sessions: `run` ends when it has been shut down and its work is done or the grace is over. */
export interface SessionWorker {
  run(): Promise<void>;
  shutdown(): void;
}

/** Makes a worker; nothing is polled before `run`. */
export async function createWorker(parts: WorkerParts): Promise<SessionWorker> {
  const { log, settings, registry = new Registry() } = parts;
  useOwnWorkflowThreads();
  const worker = await Worker.create({
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
    maxConcurrentActivityTaskExecutions: ACTIVITY_SLOTS,
    maxConcurrentWorkflowTaskExecutions: WORKFLOW_SLOTS,
    maxCachedWorkflows: CACHED_SESSIONS,
    // The server hands a task to every poll that a frozen worker has open, and each is lost for its time-out: so one poll
    // for activities and two for workflows, the sticky queue's and the common one's. Steps mostly need none: they come
    // along with the answer to the workflow's task.
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 1 },
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 },
    // A dead worker must not keep its sessions to itself.
    stickyQueueScheduleToStartTimeout: '1s',
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    shutdownGraceTime: settings.shutdownGraceMs,
  });
  const client = new Client({ connection: parts.clientConnection, namespace: parts.namespace });
  countBus(parts.bus, registry);
  watchWork(parts.db, registry);
  const { db, bus } = parts;
  const { sweepIntervalMs } = settings;
  const sweeper = new Sweeper({ db, client, log, woken: countWakes(registry) }, sweepIntervalMs);
  const stuck = new StuckWatch({ db, bus, client, log }, sweepIntervalMs * SWEEPS_A_LOOK);
  return {
    shutdown: () => worker.shutdown(),
    run: async () => {
      sweeper.start();
      stuck.start();
      try {
        await worker.run();
      } finally {
        await Promise.all([sweeper.stop(), stuck.stop()]);
      }
    },
  };
}
