// Settings of the Temporal server whose effect shows only when it is tried: each check starts workflows that no worker
// executes, in task queues of their own, and deletes them.
import { randomUUID } from 'node:crypto';
import { Client, Connection, isGrpcServiceError, type WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import type { TemporalConnectConfig } from '../../config/temporal.ts';
import {
  checkSettings,
  type Finding,
  READABLE_SETTINGS,
  type ServerSetting,
} from '../../worker/startup/server-settings.ts';

const DEADLINE_MS = 20_000;
/** With the setting a poll ends after half a second, by default after a minute or shortly before its deadline. */
const POLL_DEADLINE_MS = 7_000;
const POLL_MS = 4_000;
/** With the setting a timer of 100 ms fires after about 130 ms, by default after at least 1 s. */
const TIMER_MS = 100;
const LATE_MS = 900;
const TIMER_ATTEMPTS = 5;
/** One more than the default limit of updates in flight would refuse already. */
const UPDATES = 15;
const UPDATES_MS = 3_000;
/** gRPC status codes: a call that has reached its deadline ends with one of these, as either side is faster. */
const AT_DEADLINE: readonly (number | undefined)[] = [1, 4];
const RESOURCE_EXHAUSTED = 8;

const PROBED_SETTINGS: readonly ServerSetting[] = [
  {
    key: 'matching.longPollExpirationInterval',
    without: 'tasks given to a frozen worker are lost until they time out',
    isMissing: pollsStayOpen,
  },
  {
    key: 'history.timerProcessorMaxTimeShift',
    without: 'every timer and every retry takes at least a second',
    isMissing: timersAreLate,
  },
  {
    key: 'history.maxInFlightUpdates',
    without: 'more than 10 concurrent commands of a session are refused and have to be retried',
    isMissing: fewUpdatesInFlight,
  },
];

/**
 * Checks every setting whose effect a client can observe, for which it starts workflows of type `perdure-server-check` in
 * the namespace and deletes them; takes up to 20 s. Never rejects.
 */
export async function checkServerSettings(
  { connectionOptions, namespace }: TemporalConnectConfig,
  taskQueue: string,
): Promise<Finding[]> {
  // Without the SDK's retries, which hide that the server is out of resources.
  const connection = Connection.lazy({ ...connectionOptions, interceptors: [] });
  const client = new Client({ connection, namespace });
  const settings = [...READABLE_SETTINGS, ...PROBED_SETTINGS];
  const findings = await checkSettings(client, { namespace, taskQueue }, { settings, deadlineMs: DEADLINE_MS });
  await connection.close();
  return findings;
}

async function pollsStayOpen({ connection, options: { namespace } }: Client): Promise<boolean> {
  const startedAt = performance.now();
  const poll = { namespace, taskQueue: { name: uniqueName() }, identity: 'check' };
  await connection
    .withDeadline(Date.now() + POLL_DEADLINE_MS, () => connection.workflowService.pollWorkflowTaskQueue(poll))
    .catch((error: unknown) => {
      if (!AT_DEADLINE.includes(codeOf(error))) throw error;
    });
  return performance.now() - startedAt > POLL_MS;
}

/**
 * Without the setting, a shard that has just fired a timer fires no other for a second; an idle shard fires its next one
 * in time. So only the timers after the first are measured, all with one workflow id and so in one shard. On a busy
 * machine some of them may be late with the setting too.
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

async function fewUpdatesInFlight(client: Client): Promise<boolean> {
  return withProbe(client, uniqueName(), DEADLINE_MS, async ({ workflowId }) => {
    const { workflowService } = client.connection;
    const send = () =>
      workflowService.updateWorkflowExecution({
        namespace: client.options.namespace,
        workflowExecution: { workflowId },
        request: { meta: { updateId: randomUUID(), identity: 'check' }, input: { name: 'none' } },
      });
    const sent = await client.connection.withDeadline(Date.now() + UPDATES_MS, () =>
      Promise.allSettled(Array.from({ length: UPDATES }, send)),
    );
    const failures = sent.flatMap((each) => (each.status === 'rejected' ? [each.reason as Error] : []));
    // Those that are admitted wait for a worker, and so for the deadline.
    const other = failures.find((error) => ![...AT_DEADLINE, RESOURCE_EXHAUSTED].includes(codeOf(error)));
    if (other !== undefined) throw other;
    return failures.some((error) => codeOf(error) === RESOURCE_EXHAUSTED);
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

const codeOf = (error: unknown): number | undefined => (isGrpcServiceError(error) ? error.code : undefined);

const uniqueName = () => `perdure-server-check-${randomUUID()}`;
