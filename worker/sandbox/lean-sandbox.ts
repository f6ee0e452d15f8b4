import v8 from 'node:v8';
import vm from 'node:vm';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

let installed = false;

/**
 * From now on the SDK runs workflows in this thread without two of its services, which take much of their CPU
 * (docs/performance.md). To be called before the SDK runs its first workflow here, and only by our own programs.
 *
 * - The time limit of each call into the sandbox: Node starts a thread for each call with a limit, and a turn makes about
 *   thirty. own-workflow-threads.ts detects an endless loop by the heartbeat counter instead.
 * - The stack trace of each pending promise, for the query `__stack_trace`, which answers with an empty text here. Errors
 *   keep their stack traces.
 */
export function useLeanSandbox(): void {
  if (installed) return;
  installed = true;
  const scripts = vm.Script.prototype as { runInContext: RunInContext };
  const withWatchdog = scripts.runInContext;
  scripts.runInContext = function (context, options) {
    return withWatchdog.call(this, context, { ...options, timeout: undefined });
  };
  v8.promiseHooks.createHook = () => () => {};
}
