// A worker for the minimal turn in Temporal, with the same workflow threads as ours.
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { useOwnWorkflowThreads } from '../../../worker/sandbox/own-workflow-threads.ts';
import { serveParent } from '../child.ts';

const logger = new DefaultLogger('WARN');
Runtime.install({ logger });
useOwnWorkflowThreads();
const { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: taskQueue } = process.env;
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address: address! }),
  namespace: namespace!,
  taskQueue: taskQueue!,
  workflowBundle: await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('workflow.ts', import.meta.url)),
    logger,
  }),
  activities: { nothing: () => Promise.resolve() },
});
void worker.run();
serveParent({});
