#!/usr/bin/env node
// The worker process and its graceful shutdown.
import { parseConfig } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { runProcess } from '../config/process.ts';
import { installSdkRuntime } from './sdk-runtime.ts';
import { startWorker } from './start.ts';
import { useOwnWorkflowThreads } from './workflow-threads.ts';

async function main(): Promise<void> {
  const config = parseConfig(process.env);
  const log = createLogger('worker', config);
  useOwnWorkflowThreads();
  const sdkMetrics = await installSdkRuntime(log, config.metricsPort !== undefined);
  const worker = await startWorker({ log, ...(sdkMetrics && { moreMetrics: sdkMetrics }) });
  const drain = () => {
    log.info('draining');
    // `done` reports a failure.
    worker.stop().catch(() => {});
  };
  process.once('SIGTERM', drain);
  process.once('SIGINT', drain);
  await worker.done;
  log.info('stopped');
}

await runProcess('worker', main);
