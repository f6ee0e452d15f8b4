import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const threads = require('node:worker_threads') as { Worker: typeof Worker };
/** The SDK's entry file of a workflow thread, and ours, with the extension of this file: source or built. */
const SDK_ENTRY = require.resolve('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
const OUR_ENTRY = fileURLToPath(new URL(`thread-entry${path.extname(import.meta.filename)}`, import.meta.url));

const CHECK_MS = 5_000;
/** Checks without a heartbeat after which a thread is terminated. */
export const MISSED_CHECKS = 6;

let installed = false;

/**
 * From now on the SDK's workers in this process run workflows in our threads. The SDK has no option for that, so this
 * replaces `Worker` of `node:worker_threads`: only a program of our own may call it, never a library function.
 */
export function useOwnWorkflowThreads(): void {
  if (installed) return;
  installed = true;
  threads.Worker = class extends threads.Worker {
    constructor(entry: string | URL, options?: ConstructorParameters<typeof Worker>[1]) {
      const heartbeats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
      if (entry === SDK_ENTRY) {
        super(OUR_ENTRY, { ...options, workerData: { ...(options?.workerData as object | undefined), heartbeats } });
        terminateWhenHung(this, heartbeats);
      } else {
        super(entry, options);
      }
    }
  };
}

/**
 * Terminates a thread whose heartbeat counter does not change: it is in an endless loop. The SDK's worker then fails and its
 * process exits, which is better than taking tasks and completing none. It counts checks instead of measuring time, since
 * time also passes while a process is frozen.
 * @param repeat calls the check again and again until the returned function is called
 */
export function terminateWhenHung(thread: Worker, heartbeats: Int32Array, repeat = everyFewSeconds): void {
  let last = -1;
  let missed = 0;
  const stop = repeat(() => {
    const now = Atomics.load(heartbeats, 0);
    missed = now === last ? missed + 1 : 0;
    last = now;
    if (missed === MISSED_CHECKS) void thread.terminate();
  });
  thread.once('exit', stop);
}

function everyFewSeconds(check: () => void): () => void {
  const checking = setInterval(check, CHECK_MS).unref();
  return () => clearInterval(checking);
}
