// Which dynamic settings of deploy/temporal-dynamic.yaml the Temporal server lacks, as far as a client can read that. What
// can only be found out by trying, and so by writing into the namespace, is in dev/server-check/check-server-settings.ts.
import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';

export const SETTINGS_DOCS = 'docs/operations.md#settings-of-the-temporal-server';
const READ_MS = 8_000;

/** Where sessions are. */
export interface Where {
  namespace: string;
  taskQueue: string;
}

/** A dynamic setting whose effect a client can observe. */
export interface ServerSetting {
  key: string;
  /** What happens without it. */
  without: string;
  isMissing: (client: Client, where: Where) => Promise<boolean>;
}

/** What a check has found; `reason`: why it could not be made. */
export type Finding = Pick<ServerSetting, 'key' | 'without'> &
  ({ state: 'set' } | { state: 'missing' } | { state: 'unknown'; reason: string });

/** The settings that can be read. */
export const READABLE_SETTINGS: readonly ServerSetting[] = [
  {
    key: 'frontend.enableCancelWorkerPollsOnShutdown',
    without: 'tasks given to a worker that stops are lost until they time out',
    isMissing: lacksCapability('workerPollCompleteOnShutdown'),
  },
  {
    key: 'frontend.WorkerCommandsEnabled',
    without: 'a cancellation reaches a worker only with its next heartbeat',
    isMissing: lacksCapability('workerCommands'),
  },
  {
    key: 'matching.numTaskqueueWritePartitions',
    without: 'a task may wait up to a second for a poll in another partition',
    isMissing: hasSeveralPartitions,
  },
];

/** Checks settings side by side, within `deadlineMs`. Never rejects. */
export function checkSettings(
  client: Client,
  where: Where,
  { settings, deadlineMs }: { settings: readonly ServerSetting[]; deadlineMs: number },
): Promise<Finding[]> {
  return client.connection.withDeadline(Date.now() + deadlineMs, () =>
    Promise.all(
      settings.map(async ({ key, without, isMissing }): Promise<Finding> => {
        try {
          return { key, without, state: (await isMissing(client, where)) ? 'missing' : 'set' };
        } catch (error) {
          return { key, without, state: 'unknown', reason: error instanceof Error ? error.message : String(error) };
        }
      }),
    ),
  );
}

/** Logs one warning per setting that can be read and is missing. It writes nothing into the namespace, and never rejects. */
export async function warnOfMissingServerSettings(client: Client, where: Where, log: Logger): Promise<void> {
  for (const finding of await checkSettings(client, where, { settings: READABLE_SETTINGS, deadlineMs: READ_MS })) {
    if (finding.state === 'missing') log.warn({ key: finding.key, docs: SETTINGS_DOCS }, missingSetting(finding));
  }
}

/** A line about a setting that is missing: its effect, and where its value is documented. */
export function missingSetting({ key, without }: Pick<ServerSetting, 'key' | 'without'>): string {
  return `the Temporal server lacks the dynamic setting ${key}: ${without}; see ${SETTINGS_DOCS}`;
}

function lacksCapability(name: string): ServerSetting['isMissing'] {
  return async ({ connection }, { namespace }) => {
    const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
    const capabilities = (namespaceInfo?.capabilities ?? {}) as Record<string, unknown>;
    return capabilities[name] === false;
  };
}

async function hasSeveralPartitions({ connection }: Client, { namespace, ...where }: Where): Promise<boolean> {
  const taskQueue = { name: where.taskQueue };
  const listed = await connection.workflowService.listTaskQueuePartitions({ namespace, taskQueue });
  return listed.workflowTaskQueuePartitions.length > 1;
}
