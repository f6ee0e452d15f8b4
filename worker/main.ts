#!/usr/bin/env node
// The worker process and its graceful shutdown.
import { parseConfig } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { endProcess, runProcess } from '../config/process.ts';
import { useOwnWorkflowThreads } from './sandbox/own-workflow-threads.ts';
import { type StartedWorker, startWorker } from './start.ts';
import { installSdkRuntime } from './startup/sdk-runtime.ts';

/** A draining worker that has had no work for this long exits. */
const IDLE_MS = 700;
const IDLE_CHECK_MS = 50;

async function main(_options: object, stopRequest: () => Promise<void>): Promise<void> {
  const config = parseConfig(process.env);
  const log = createLogger('worker', config);
  useOwnWorkflowThreads();
  const sdkMetrics = await installSdkRuntime(log, config.metricsPort !== undefined);
  const worker = await startWorker({ log, ...(sdkMetrics && { moreMetrics: sdkMetrics }) });
  void stopRequest().then(() => {
    log.info('draining');
    // `done` reports a failure.
    worker.stop().catch(() => {});
    exitWhenIdle(worker, () => log.info('stopped'));
  });
  await worker.done;
  log.info('stopped');
}

/**
 * With no work in flight there is nothing to wait for: ending connections to servers that do not answer would take seconds.
 * The server gives what the SDK has not handed back to another worker.
 */
function exitWhenIdle(worker: StartedWorker, beforeExit: () => void): void {
  let idleMs = 0;
  const checking = setInterval(() => {
    idleMs = worker.isBusy() ? 0 : idleMs + IDLE_CHECK_MS;
    if (idleMs < IDLE_MS) return;
    clearInterval(checking);
    void worker.endLease().then(() => {
      beforeExit();
      return endProcess(0);
    });
  }, IDLE_CHECK_MS);
  checking.unref();
}

await runProcess({ name: 'worker', does: 'runs the turns of sessions' }, main);
