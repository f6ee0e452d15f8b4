import { randomUUID } from 'node:crypto';
import {
  Client,
  Connection,
  type ConnectionOptions,
  isGrpcServiceError,
  type WorkflowHandleWithFirstExecutionRunId,
} from '@temporalio/client';
import type { Logger } from 'pino';

const DOCS = 'docs/operations.md#settings-of-the-temporal-server';
/** Each check ends within this time, so all of them, which run side by side, do. */
const DEADLINE_MS = 8_000;
/** With the setting a poll ends after half a second, by default after a minute or shortly before its deadline. */
const POLL_DEADLINE_MS = 7_000;
const POLL_MS = 4_000;
/** With the setting a timer of 100 ms fires after about 130 ms, by default after at least 1 s. */
const TIMER_MS = 100;
const LATE_MS = 900;
const TIMER_ATTEMPTS = 2;
/** One more than the default limit of updates in flight would refuse already. */
const UPDATES = 15;
const UPDATES_MS = 1_500;
const RESOURCE_EXHAUSTED = 8;

type Check = (client: Client, where: Where) => Promise<boolean>;

interface Where {
  namespace: string;
  /** Of the sessions. */
  taskQueue: string;
}

/**
 * The keys of deploy/temporal-dynamic.yaml whose effect a client can observe, each with a check that is true if the
 * setting is missing. The others have an effect only under load, after minutes or with a failing session.
 */
const CHECKS: Readonly<Record<string, Check>> = {
  'frontend.enableCancelWorkerPollsOnShutdown': lacksCapability('workerPollCompleteOnShutdown'),
  'frontend.WorkerCommandsEnabled': lacksCapability('workerCommands'),
  'matching.longPollExpirationInterval': pollsStayOpen,
  'matching.numTaskqueueWritePartitions': hasSeveralPartitions,
  'history.timerProcessorMaxTimeShift': timersAreLate,
  'history.maxInFlightUpdates': fewUpdatesInFlight,
};

/**
 * Logs one warning per setting that the Temporal server lacks, over a connection of its own without the SDK's retries,
 * which hide that the server is out of resources. A check that fails logs nothing. Never rejects.
 */
export async function warnOfMissingServerSettings(
  options: ConnectionOptions,
  where: Where,
  log: Logger,
): Promise<void> {
  const connection = Connection.lazy({ ...options, interceptors: [] });
  const client = new Client({ connection, namespace: where.namespace });
  await connection.withDeadline(Date.now() + DEADLINE_MS, () =>
    Promise.all(
      Object.entries(CHECKS).map(async ([key, isMissing]) => {
        if (await isMissing(client, where).catch(() => false)) {
          log.warn({ key, docs: DOCS }, `the Temporal server lacks the dynamic setting ${key}: see ${DOCS}`);
        }
      }),
    ),
  );
  await connection.close();
}

function lacksCapability(name: string): Check {
  return async ({ connection }, { namespace }) => {
    const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
    const capabilities = (namespaceInfo?.capabilities ?? {}) as Record<string, unknown>;
    return capabilities[name] === false;
  };
}

async function pollsStayOpen({ connection }: Client, { namespace }: Where): Promise<boolean> {
  const startedAt = performance.now();
  const poll = { namespace, taskQueue: { name: uniqueName() }, identity: 'check' };
  await connection
    .withDeadline(Date.now() + POLL_DEADLINE_MS, () => connection.workflowService.pollWorkflowTaskQueue(poll))
    .catch(() => {});
  return performance.now() - startedAt > POLL_MS;
}

async function hasSeveralPartitions({ connection }: Client, { namespace, ...where }: Where): Promise<boolean> {
  const taskQueue = { name: where.taskQueue };
  const listed = await connection.workflowService.listTaskQueuePartitions({ namespace, taskQueue });
  return listed.workflowTaskQueuePartitions.length > 1;
}

/**
 * Without the setting, a shard that has just fired a timer fires no other for a second; an idle shard fires its next one
 * in time. So only the timers after the first are measured, all with one workflow id and so in one shard. On a busy
 * machine one of them may be late with the setting too.
 */
async function timersAreLate(client: Client): Promise<boolean> {
  const workflowId = uniqueName();
  const timedOutAfter = async () => {
    const startedAt = performance.now();
    await withProbe(client, workflowId, TIMER_MS, (probe) => probe.result().catch(() => {}));
    return performance.now() - startedAt;
  };
  await timedOutAfter();
  for (let attempt = 1; attempt <= TIMER_ATTEMPTS; attempt += 1) {
    if ((await timedOutAfter()) < LATE_MS) return false;
  }
  return true;
}

async function fewUpdatesInFlight(client: Client, { namespace }: Where): Promise<boolean> {
  return withProbe(client, uniqueName(), DEADLINE_MS, async ({ workflowId }) => {
    const { workflowService } = client.connection;
    const send = () =>
      workflowService.updateWorkflowExecution({
        namespace,
        workflowExecution: { workflowId },
        request: { meta: { updateId: randomUUID(), identity: 'check' }, input: { name: 'none' } },
      });
    const sent = await client.connection.withDeadline(Date.now() + UPDATES_MS, () =>
      Promise.allSettled(Array.from({ length: UPDATES }, send)),
    );
    return sent.some(
      (each) =>
        each.status === 'rejected' &&
        isGrpcServiceError(each.reason) &&
        (each.reason.code as number) === RESOURCE_EXHAUSTED,
    );
  });
}

/** Runs `use` on a workflow that no worker executes and that times out after `timeoutMs`, then deletes it. */
async function withProbe<T>(
  client: Client,
  workflowId: string,
  timeoutMs: number,
  use: (probe: WorkflowHandleWithFirstExecutionRunId) => Promise<T>,
): Promise<T> {
  const probe = await client.workflow.start('perdure-server-check', {
    ...{ workflowId, taskQueue: workflowId, workflowExecutionTimeout: timeoutMs },
  });
  try {
    return await use(probe);
  } finally {
    const { namespace } = client.options;
    const workflowExecution = { workflowId, runId: probe.firstExecutionRunId };
    await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution }).catch(() => {});
  }
}

const uniqueName = () => `perdure-server-check-${randomUUID()}`;
