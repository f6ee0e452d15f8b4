import path from 'node:path';
import { startNodeProcess } from '../../tools/dev/node-process.ts';
import type { TiedProcess } from '../../tools/dev/die-with-parent.ts';
import type { WorkerParts } from '../../worker/create.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';

/** When a worker kills or freezes itself: before or after its process's nth call of an SQL function. */
export interface CrashPoint {
  before?: string;
  after?: string;
  nth?: number;
  /** Counts only calls whose arguments contain this text. */
  holding?: string;
  /** Default SIGKILL. */
  signal?: 'SIGKILL' | 'SIGSTOP';
}

/** The settings of the process. */
export interface WorkerProcess {
  databaseUrl: string;
  address: string;
  namespace: string;
  modelUrl: string;
  settings: WorkerParts['settings'];
  crashesAt: CrashPoint | null;
}

/**
 * A worker in a process of its own, on the servers of a runtime. With a death it kills itself at that call; without one the
 * test stops it (SIGSTOP, SIGKILL, by its pid). In any case it ends with this process.
 */
export function startWorkerProcess(runtime: TestRuntime, crashesAt: CrashPoint | null): Promise<TiedProcess> {
  const options: WorkerProcess = {
    databaseUrl: runtime.databaseUrl,
    address: runtime.address,
    namespace: runtime.namespace,
    modelUrl: runtime.model.url,
    settings: runtime.settings,
    crashesAt,
  };
  return startNodeProcess({
    name: 'worker',
    entry: path.join(import.meta.dirname, 'worker-process-main.ts'),
    env: { ...process.env, PERDURE_TEST_WORKER: JSON.stringify(options) },
    logDir: runtime.workspaces,
    graceMs: 3_000,
    say: () => {},
  });
}
