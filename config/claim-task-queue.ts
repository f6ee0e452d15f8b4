import { Client, type Connection, WorkflowNotFoundError } from '@temporalio/client';
import { ConfigError } from './error.ts';

const DEADLINE_MS = 10_000;
/** Longer than any installation lasts: until then the marker has no workflow task, so it is in no backlog. */
const NEVER_MS = 100 * 365 * 86_400_000;

/** A task queue of a namespace, and the id of the installation that uses it. */
export interface UsedTaskQueue {
  namespace: string;
  taskQueue: string;
  installation: string;
}

/**
 * Marks a task queue as this installation's, unless it is marked already. The marker is an open workflow that no worker
 * executes; its id is made from the queue's name, so that of several workers that start at once only one creates it, and its
 * memo holds the installation's id. Takes two requests.
 * @throws {ConfigError} with both ids: the queue belongs to another installation, and its workers would take this one's work
 */
export async function claimTaskQueue(connection: Connection, used: UsedTaskQueue): Promise<void> {
  const { namespace, taskQueue, installation } = used;
  const client = new Client({ connection, namespace });
  const workflowId = markerOf(taskQueue);
  await connection.withDeadline(Date.now() + DEADLINE_MS, () =>
    client.workflow.start('perdure-task-queue', {
      workflowId,
      // Nobody polls it.
      taskQueue: workflowId,
      startDelay: NEVER_MS,
      workflowIdConflictPolicy: 'USE_EXISTING',
      memo: { installation },
      staticSummary: `The task queue "${taskQueue}" belongs to the installation ${installation}`,
    }),
  );
  await refuseForeignTaskQueue(client, used);
}

/**
 * Checks that a task queue is this installation's or nobody's.
 * @throws {ConfigError} as `claimTaskQueue`
 */
export async function refuseForeignTaskQueue(client: Client, used: UsedTaskQueue): Promise<void> {
  const { namespace, taskQueue, installation } = used;
  const owner = await ownerOf(client, taskQueue);
  if (owner === undefined || owner === installation) return;
  const expected =
    `the name of a task queue that no other installation uses: in the namespace "${namespace}", "${taskQueue}" belongs ` +
    `to the installation ${owner}, and this database is that of ${installation}. Choose another name, or, if that ` +
    `installation is no longer used, terminate the workflow "${markerOf(taskQueue)}"`;
  throw new ConfigError([{ name: 'PERDURE_TASK_QUEUE', expected }]);
}

async function ownerOf({ connection, workflow }: Client, taskQueue: string): Promise<string | undefined> {
  try {
    const describe = () => workflow.getHandle(markerOf(taskQueue)).describe();
    const { memo, status } = await connection.withDeadline(Date.now() + DEADLINE_MS, describe);
    return status.name === 'RUNNING' ? String(memo?.['installation']) : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** The workflow that marks a task queue. */
function markerOf(taskQueue: string): string {
  return `perdure-task-queue-${taskQueue}`;
}
