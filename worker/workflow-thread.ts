// The SDK's workflow thread without two of its services, which together take more than half of its CPU
// (docs/performance.md). Only our own workflows run here.
//
// - The time limit of each call into the sandbox: Node starts a thread for each call with a limit, and a turn makes about
//   thirty. workflow-threads.ts detects an endless loop by the heartbeat counter instead.
// - The stack trace of each pending promise, for the query `__stack_trace`, which answers with an empty text here. Errors
//   keep their stack traces.
import v8 from 'node:v8';
import vm from 'node:vm';
import { workerData } from 'node:worker_threads';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

const HEARTBEAT_MS = 1_000;

const scripts = vm.Script.prototype as { runInContext: RunInContext };
const withWatchdog = scripts.runInContext;
scripts.runInContext = function (context, options) {
  return withWatchdog.call(this, context, { ...options, timeout: undefined });
};

v8.promiseHooks.createHook = () => () => {};

const { heartbeats } = workerData as { heartbeats: Int32Array };
setInterval(() => Atomics.add(heartbeats, 0, 1), HEARTBEAT_MS).unref();

await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
