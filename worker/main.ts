#!/usr/bin/env node
// The worker as a process of its own, and its orderly end.
import { parseConfig } from '../config/config.ts';
import { createLogger } from '../config/log.ts';
import { runProcess } from '../config/process.ts';
import { installSdkRuntime } from './sdk-runtime.ts';
import { startWorker } from './start.ts';

async function main(): Promise<void> {
  const config = parseConfig(process.env);
  const log = createLogger('worker', config);
  const sdkMetrics = await installSdkRuntime(log, config.metricsPort !== undefined);
  const worker = await startWorker({ log, ...(sdkMetrics && { moreMetrics: sdkMetrics }) });
  const drain = () => {
    log.info('draining');
    // A failure to stop is `done`'s to tell.
    worker.stop().catch(() => {});
  };
  process.once('SIGTERM', drain);
  process.once('SIGINT', drain);
  await worker.done;
  log.info('stopped');
}

await runProcess('worker', main);
