// The thread that runs workflows: the SDK's own, without a watchdog at every step into a workflow. Node starts a thread for
// each call of a script that has a time-out, and a turn takes some thirty of them: a fifth of all that a turn costs
// (docs/performance.md). Ours are the only workflows here. One that loops for ever is found by whoever counts the beats.
import vm from 'node:vm';
import { workerData } from 'node:worker_threads';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

const BEAT_MS = 1_000;

const scripts = vm.Script.prototype as { runInContext: RunInContext };
const withWatchdog = scripts.runInContext;
scripts.runInContext = function (context, options) {
  return withWatchdog.call(this, context, { ...options, timeout: undefined });
};

const { beats } = workerData as { beats: Int32Array };
setInterval(() => Atomics.add(beats, 0, 1), BEAT_MS).unref();

await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
