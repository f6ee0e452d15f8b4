// The thread that runs workflows: the SDK's own, without a watchdog at every step into a workflow. Node starts a thread for
// each call of a script that has a time-out, and a turn takes some thirty of them: a fifth of all that a turn costs
// (docs/performance.md). Ours are the only workflows here; what could loop for ever is found by the time-out of its task.
import vm from 'node:vm';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

const scripts = vm.Script.prototype as { runInContext: RunInContext };
const withWatchdog = scripts.runInContext;
scripts.runInContext = function (context, options) {
  return withWatchdog.call(this, context, { ...options, timeout: undefined });
};
await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
