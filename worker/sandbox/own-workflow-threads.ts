import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const threads = require('node:worker_threads') as { Worker: typeof Worker };
/** With the extension of this file: source or built. */
const OUR_ENTRY = fileURLToPath(new URL(`thread-entry${path.extname(import.meta.filename)}`, import.meta.url));

const CHECK_MS = 5_000;
/** Checks without a heartbeat after which a thread is terminated. */
export const MISSED_CHECKS = 6;

/** What our thread is given. */
export interface ThreadData {
  /** The SDK's entry file of a workflow thread. */
  sdkEntry: string;
  heartbeats: Int32Array;
  /** See `useLeanSandbox`. */
  leftOut: Int32Array;
}

/** Of the newest thread. */
let counts: Omit<ThreadData, 'sdkEntry'> | undefined;

/** What the newest of our threads has counted, in a process with one worker; undefined without `useOwnWorkflowThreads`. */
export function threadCounts(): { heartbeats: number; unlimitedCalls: number; untracedHooks: number } | undefined {
  if (counts === undefined) return undefined;
  const [[heartbeats = 0], [unlimitedCalls = 0, untracedHooks = 0]] = [counts.heartbeats, counts.leftOut];
  return { heartbeats, unlimitedCalls, untracedHooks };
}

/**
 * From now on the SDK's workers in this process run workflows in our threads, unless the SDK starts its threads in another way
 * than it does today. It has no option for that, so this replaces `Worker` of `node:worker_threads`: only a program of our own
 * may call it, never a library function.
 */
export function useOwnWorkflowThreads(): void {
  if (counts !== undefined) return;
  counts = newCounts();
  const sdkEntry = findSdkEntry();
  threads.Worker = class extends threads.Worker {
    constructor(entry: string | URL, options?: ConstructorParameters<typeof Worker>[1]) {
      if (sdkEntry !== undefined && entry === sdkEntry) {
        counts = newCounts();
        const workerData = { ...(options?.workerData as object | undefined), sdkEntry, ...counts } satisfies ThreadData;
        super(OUR_ENTRY, { ...options, workerData });
        terminateWhenHung(this, counts.heartbeats);
      } else {
        super(entry, options);
      }
    }
  };
}

/** The SDK's entry file of a workflow thread; undefined if this version has another one. */
function findSdkEntry(): string | undefined {
  try {
    return require.resolve('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
  } catch {
    return undefined;
  }
}

function newCounts() {
  const shared = (length: number) => new Int32Array(new SharedArrayBuffer(length * Int32Array.BYTES_PER_ELEMENT));
  return { heartbeats: shared(1), leftOut: shared(2) };
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
