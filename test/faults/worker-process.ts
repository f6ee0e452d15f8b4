import path from 'node:path';
import { startNodeProcess } from '../../dev/node-process.ts';
import type { TiedProcess } from '../../dev/spawn-tied.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import type { WorkerParts } from '../../worker/create.ts';

/** Settings where a worker is lost: what it had just begun may not be under its lease yet, and continues after this time. */
export const WHEN_LOST = { heartbeatTimeoutMs: patient(5_000) };

/** Before or after a session's call of an SQL function. */
export interface CrashPoint {
  before?: string;
  after?: string;
  /** The call has this text in its arguments. */
  holding?: string;
}

/** How a worker process ends by itself. */
interface Crash {
  /** By session. A session that has arrived waits until all have: then the process crashes. */
  crashesAt: Readonly<Record<string, CrashPoint>>;
  /** Default SIGKILL. With SIGSTOP the process goes on when the test sends SIGCONT. */
  signal?: 'SIGKILL' | 'SIGSTOP';
}

/** The settings of the process. */
export interface WorkerProcess extends Required<Crash> {
  databaseUrl: string;
  address: string;
  namespace: string;
  modelUrl: string;
  settings: WorkerParts['settings'];
}

/**
 * A worker in a process of its own, on the servers of a runtime. Without a crash the test stops it (SIGSTOP, SIGKILL, by its
 * pid). In any case it ends with this process.
 */
export function startWorkerProcess(
  runtime: TestRuntime,
  { crashesAt, signal = 'SIGKILL' }: Crash = { crashesAt: {} },
): Promise<TiedProcess> {
  const options: WorkerProcess = {
    databaseUrl: runtime.databaseUrl,
    address: runtime.address,
    namespace: runtime.namespace,
    modelUrl: runtime.model.url,
    settings: runtime.settings,
    crashesAt,
    signal,
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
