import { randomUUID } from 'node:crypto';
import { Client, Connection, WithStartWorkflowOperation } from '@temporalio/client';
import { startChild } from '../child.ts';
import { now } from '../clock.ts';
import { NAMESPACE } from '../names.ts';
import type { System } from '../servers.ts';

/** Turns of Temporal alone, while `use` runs: `workflow()` returns a function that runs one turn and returns its ms. */
export async function withTemporalAlone<T>(
  { temporalAddress }: System,
  use: (workflow: () => () => Promise<number>, workerPid: number) => Promise<T>,
): Promise<T> {
  await using stops = new AsyncDisposableStack();
  const taskQueue = `alone-${randomUUID()}`;
  const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: NAMESPACE, TASK_QUEUE: taskQueue };
  const worker = await startChild('temporal-alone/worker', env);
  stops.defer(() => worker.stop());
  const connection = await Connection.connect({ address: temporalAddress });
  stops.defer(() => connection.close());
  const client = new Client({ connection, namespace: NAMESPACE });
  const ids: string[] = [];
  stops.defer(() => Promise.all(ids.map((id) => client.workflow.getHandle(id).terminate())).then(() => {}));
  const workflow = () => {
    const workflowId = `${taskQueue}-${ids.length}`;
    ids.push(workflowId);
    return async () => {
      const from = now();
      const startWorkflowOperation = new WithStartWorkflowOperation('alone', {
        ...{ workflowId, taskQueue, args: [], workflowIdConflictPolicy: 'USE_EXISTING' },
      });
      await client.workflow.executeUpdateWithStart('turn', { startWorkflowOperation });
      return now() - from;
    };
  };
  return await use(workflow, worker.pid);
}
