import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const threads = require('node:worker_threads') as { Worker: typeof Worker };
/** The SDK's entry of a thread of workflows, and ours, which is of the same kind as this file: source or built. */
const SDK_ENTRY = require.resolve('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
const OUR_ENTRY = fileURLToPath(new URL(`workflow-thread${path.extname(import.meta.filename)}`, import.meta.url));

let own = false;

/** From here on the SDK's workers of this process run workflows in threads of ours: it has no option for them. */
export function useOwnWorkflowThreads(): void {
  if (own) return;
  own = true;
  threads.Worker = class extends threads.Worker {
    constructor(entry: string | URL, options?: ConstructorParameters<typeof Worker>[1]) {
      super(entry === SDK_ENTRY ? OUR_ENTRY : entry, options);
    }
  };
}
