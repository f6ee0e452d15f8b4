// The system that a test file runs: a worker over a database and a namespace of the file's own.
import { afterAll } from 'vitest';
import { freshDatabase, freshNamespace } from './servers.ts';
import { type RuntimeOptions, startSystem, type TestRuntime } from './system.ts';

export type { LogLine, RunningWorker, RuntimeOptions, TestRuntime } from './system.ts';

/** Starts a worker over a fresh database and namespace. Call it in a beforeAll; it is gone after the file. */
export async function startRuntime(options: RuntimeOptions = {}): Promise<TestRuntime> {
  const databaseUrl = await freshDatabase();
  const runtime = await startSystem({ databaseUrl, ...(await freshNamespace()) }, options);
  afterAll(() => runtime.stop());
  return runtime;
}
