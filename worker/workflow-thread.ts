// The SDK's workflow thread without its watchdog. The SDK enters the sandbox with a time-out, for which Node starts a
// thread per call; a turn makes about thirty calls, and the watchdogs take a fifth of a turn's CPU (docs/performance.md).
// Only our own workflows run here. workflow-threads.ts detects an endless loop by the heartbeat counter.
import vm from 'node:vm';
import { workerData } from 'node:worker_threads';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

const HEARTBEAT_MS = 1_000;

const scripts = vm.Script.prototype as { runInContext: RunInContext };
const withWatchdog = scripts.runInContext;
scripts.runInContext = function (context, options) {
  return withWatchdog.call(this, context, { ...options, timeout: undefined });
};

const { heartbeats } = workerData as { heartbeats: Int32Array };
setInterval(() => Atomics.add(heartbeats, 0, 1), HEARTBEAT_MS).unref();

await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
