import { readFile } from 'node:fs/promises';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import pTimeout from 'p-timeout';
import type { Logger } from 'pino';
import { lendingSlots } from '../slots/lending-slots.ts';
import type { WorkflowSlots } from '../slots/workflow-slots.ts';
import { sdkSelfTest } from '../startup/sdk-self-test.ts';
import { SDK_VERSION } from './bundle.ts';
import { threadCounts } from './own-workflow-threads.ts';
import type { WorkflowCache } from './workflow-cache.ts';

/** A recorded turn, a copy of test/histories/plain-turn.1.json, which the package does not contain. */
const HISTORY = new URL('warm-up.json', import.meta.url);
/** The SDK may wait for ever for the end of a replay. */
const MAX_WARM_UP_MS = 60_000;

/**
 * Creates a worker and replays a recorded turn in its workflow thread. In a new thread the first workflow takes about a
 * second of CPU, most of it for compiling; on a busy machine its task would time out. The replay also shows whether the SDK
 * is as we expect, which is logged. If the replay's workflow is created and does not come into the cache and leave it, the worker
 * goes on with the SDK's own creator of workflows: then the cache stays empty and no slots are lent.
 */
export async function createWarmWorker(
  options: WorkerOptions & { workflowBundle: { codePath: string } | { code: string } },
  { cache, slots }: { cache: WorkflowCache; slots: WorkflowSlots },
  log: Logger,
): Promise<Worker> {
  let watched: WorkflowCreator | undefined;
  let activations = 0;
  let isCreated = false;
  let hasLeftCache = false;
  let isWatching = true;
  /** The SDK creates a workflow thread for each worker; here the replay runs in that of the worker created first. */
  class SharingWorker extends Worker {
    protected static override async createWorkflowCreator(
      ...args: Parameters<(typeof Worker)['createWorkflowCreator']>
    ): Promise<WorkflowCreator> {
      const shared = watched;
      if (shared !== undefined) {
        const createWorkflow: WorkflowCreator['createWorkflow'] = (of) => {
          isCreated = true;
          return counting(shared.createWorkflow(of), () => (activations += 1));
        };
        return { createWorkflow, destroy: async () => {} };
      }
      const plain = await super.createWorkflowCreator(...args);
      const ours = lendingSlots(cache.watching(plain), slots);
      watched = ours;
      return {
        createWorkflow: (of) => (isWatching ? ours : plain).createWorkflow(of),
        destroy: () => plain.destroy(),
      };
    }
  }
  cache.onEvicted(() => (hasLeftCache = true));
  const worker = await ('createWorkflowCreator' in Worker ? SharingWorker : Worker).create(options);
  const hasCreator = watched !== undefined;
  const history: unknown = JSON.parse(await readFile(HISTORY, 'utf8'));
  const { workflowBundle } = options;
  let err: unknown;
  try {
    const replay = () => SharingWorker.runReplayHistory({ workflowBundle, replayName: 'warm-up' }, history);
    if (hasCreator) await pTimeout(replay(), { milliseconds: MAX_WARM_UP_MS });
  } catch (error) {
    err = error;
  }
  isWatching = hasLeftCache || !isCreated;
  const seen = { threads: threadCounts(), hasCreator, isCreated, activations, hasLeftCache, err };
  sdkSelfTest(seen, SDK_VERSION, log);
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
