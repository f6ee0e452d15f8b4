import path from 'node:path';
import { startNodeProcess } from '../../tools/dev/node-process.ts';
import type { TiedProcess } from '../../tools/dev/die-with-parent.ts';
import type { WorkerParts } from '../../worker/create.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';

/** When a worker kills or freezes itself: around the nth call of an SQL function, counted in its process. */
export interface Death {
  before?: string;
  after?: string;
  nth?: number;
  /** Only calls whose arguments have this text count. */
  holding?: string;
  /** Default SIGKILL. */
  signal?: 'SIGKILL' | 'SIGSTOP';
}

/** What the process is told. */
export interface DoomedWorker {
  databaseUrl: string;
  address: string;
  namespace: string;
  modelUrl: string;
  settings: WorkerParts['settings'];
  dies: Death | null;
}

/**
 * A worker in a process of its own, on the servers of a runtime. With a death it kills itself there; without one it is
 * the test's to stop (SIGSTOP, SIGKILL, by its pid). It ends with this process in any case.
 */
export function startDoomedWorker(runtime: TestRuntime, dies: Death | null): Promise<TiedProcess> {
  const doomed: DoomedWorker = {
    databaseUrl: runtime.databaseUrl,
    address: runtime.address,
    namespace: runtime.namespace,
    modelUrl: runtime.model.url,
    settings: runtime.settings,
    dies,
  };
  return startNodeProcess({
    name: 'worker',
    entry: path.join(import.meta.dirname, 'doomed-main.ts'),
    env: { ...process.env, PERDURE_TEST_WORKER: JSON.stringify(doomed) },
    logDir: runtime.workspaces,
    graceMs: 3_000,
    say: () => {},
  });
}
