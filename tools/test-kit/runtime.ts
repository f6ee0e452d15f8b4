// The system of a test file: a worker with the file's own database and namespace.
import { afterFile } from './after-file.ts';
import { keepLog } from './failed-file.ts';
import { freshDatabase, freshNamespace } from './servers.ts';
import { type RuntimeOptions, startSystem, type TestRuntime } from './system.ts';

export type { LogLine, RunningWorker, RuntimeOptions, TestRuntime } from './system.ts';

/** Starts a worker with a fresh database and namespace, and stops it after the file. Call it in a beforeAll. */
export async function startRuntime(options: RuntimeOptions = {}): Promise<TestRuntime> {
  const databaseUrl = await freshDatabase();
  const runtime = await startSystem({ databaseUrl, ...(await freshNamespace()) }, options);
  afterFile(async (kept) => {
    await runtime.stop();
    if (kept !== undefined) await keepLog(kept, 'worker', runtime.logs);
  });
  return runtime;
}
