import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const threads = require('node:worker_threads') as { Worker: typeof Worker };
/** The SDK's entry of a thread of workflows, and ours, which is of the same kind as this file: source or built. */
const SDK_ENTRY = require.resolve('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
const OUR_ENTRY = fileURLToPath(new URL(`workflow-thread${path.extname(import.meta.filename)}`, import.meta.url));

const LOOK_MS = 5_000;
/** Looks without a beat in between after which a thread is given up. */
const PATIENCE = 6;

let own = false;

/** From here on the SDK's workers of this process run workflows in threads of ours: it has no option for them. */
export function useOwnWorkflowThreads(): void {
  if (own) return;
  own = true;
  threads.Worker = class extends threads.Worker {
    constructor(entry: string | URL, options?: ConstructorParameters<typeof Worker>[1]) {
      const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
      if (entry === SDK_ENTRY) {
        super(OUR_ENTRY, { ...options, workerData: { beats } });
        endWhenSilent(this, beats);
      } else {
        super(entry, options);
      }
    }
  };
}

/**
 * Ends a thread that has stopped to count its beats, for it is in a loop. Its worker fails then, and says so, and its
 * process ends: better than one that takes tasks and does none. Looks are counted, not time, which passes while a process
 * is frozen.
 */
export function endWhenSilent(thread: Worker, beats: Int32Array, lookMs = LOOK_MS): void {
  let last = -1;
  let silent = 0;
  const looking = setInterval(() => {
    const now = Atomics.load(beats, 0);
    silent = now === last ? silent + 1 : 0;
    last = now;
    if (silent === PATIENCE) void thread.terminate();
  }, lookMs).unref();
  thread.once('exit', () => clearInterval(looking));
}
