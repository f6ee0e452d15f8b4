import v8 from 'node:v8';
import vm from 'node:vm';

type RunInContext = (this: vm.Script, context: vm.Context, options?: vm.RunningScriptOptions) => unknown;

let installed = false;

/**
 * From now on the SDK runs workflows in this thread without two of its services, which take much of their CPU
 * (docs/performance.md). To be called before the SDK runs its first workflow here, and only by our own programs. What cannot
 * be left out, because Node has changed, stays as it is.
 *
 * - The time limit of each call into the sandbox: Node starts a thread for each call with a limit, and a turn makes about
 *   thirty. own-workflow-threads.ts detects an endless loop by the heartbeat counter instead.
 * - The stack trace of each pending promise, for the query `__stack_trace`, which answers with an empty text here. Errors
 *   keep their stack traces.
 *
 * @param leftOut counts how often each was left out, in this order
 */
export function useLeanSandbox(leftOut: Int32Array = new Int32Array(2)): void {
  if (installed) return;
  installed = true;
  const scripts = vm.Script.prototype as { runInContext?: RunInContext };
  const hooks = v8.promiseHooks as Partial<typeof v8.promiseHooks> | undefined;
  const withWatchdog = scripts.runInContext;
  const runInContext: RunInContext = function (context, options) {
    if (options?.timeout !== undefined) Atomics.add(leftOut, 0, 1);
    return withWatchdog?.call(this, context, { ...options, timeout: undefined });
  };
  const createHook = () => {
    Atomics.add(leftOut, 1, 1);
    return () => {};
  };
  // Unlike an assignment, this does not throw for what is read-only.
  if (withWatchdog !== undefined) Reflect.set(scripts, 'runInContext', runInContext);
  if (hooks?.createHook !== undefined) Reflect.set(hooks, 'createHook', createHook);
}
