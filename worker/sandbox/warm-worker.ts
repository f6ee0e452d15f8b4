import { readFile } from 'node:fs/promises';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import type { Logger } from 'pino';

/** A recorded turn, a copy of test/histories/plain-turn.1.json, which the package does not contain. */
const HISTORY = new URL('warm-up.json', import.meta.url);

/**
 * Creates a worker and replays a recorded turn in its workflow thread. In a new thread the first workflow takes about a
 * second of CPU, most of it for compiling; on a busy machine its task would time out. A replay that fails is logged.
 * `watch` is given what creates the workflows of the worker, and returns what it is to use.
 */
export async function createWarmWorker(
  options: WorkerOptions & { workflowBundle: { codePath: string } | { code: string } },
  watch: (creator: WorkflowCreator) => WorkflowCreator,
  log: Logger,
): Promise<Worker> {
  let creator: WorkflowCreator | undefined;
  let activations = 0;
  /** The SDK creates a workflow thread for each worker; here the replay runs in that of the worker created first. */
  class SharingWorker extends Worker {
    protected static override async createWorkflowCreator(
      ...args: Parameters<(typeof Worker)['createWorkflowCreator']>
    ): Promise<WorkflowCreator> {
      const shared = creator;
      if (shared === undefined) {
        creator = await super.createWorkflowCreator(...args);
        return watch(creator);
      }
      return {
        createWorkflow: (of) => counting(shared.createWorkflow(of), () => (activations += 1)),
        destroy: async () => {},
      };
    }
  }
  const worker = await SharingWorker.create(options);
  const { workflowBundle } = options;
  try {
    const history: unknown = JSON.parse(await readFile(HISTORY, 'utf8'));
    await SharingWorker.runReplayHistory({ workflowBundle, replayName: 'warm-up' }, history);
    log.info({ activations }, 'the workflow thread is warm');
  } catch (error) {
    log.warn({ err: error }, 'the workflow thread could not be warmed up: the first session will be slow');
  }
  return worker;
}

async function counting(creating: Promise<Workflow>, count: () => void): Promise<Workflow> {
  const workflow = await creating;
  const activate = workflow.activate.bind(workflow);
  workflow.activate = (activation) => {
    count();
    return activate(activation);
  };
  return workflow;
}
