import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Reads the SDK's metrics, in Prometheus' text format. */
export type SdkMetrics = () => Promise<string>;

/**
 * Sends the log of the SDK and the workflows to ours, each line with its session, and, with `withMetrics`, returns a
 * function that reads the SDK's metrics. Call it once per process, before any worker is created.
 */
export async function installSdkRuntime(log: Logger, withMetrics: boolean): Promise<SdkMetrics | undefined> {
  const logger = sdkLogger(log);
  const logging = { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } as const;
  if (!withMetrics) {
    Runtime.install({ logger, telemetryOptions: { logging } });
    return undefined;
  }
  // The SDK serves its metrics over HTTP; only this process reads them.
  const bindAddress = `127.0.0.1:${await freePort()}`;
  const prometheus = { bindAddress, countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true };
  Runtime.install({ logger, telemetryOptions: { logging, metrics: { prometheus, attachServiceName: false } } });
  return async () => (await fetch(`http://${bindAddress}/metrics`)).text();
}

function sdkLogger(log: Logger): DefaultLogger {
  const sdk = log.child({ source: 'temporal' });
  const levels = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;
  // Below a warning the SDK's log is of interest only in debugging.
  const least = sdk.isLevelEnabled('trace') ? 'TRACE' : sdk.isLevelEnabled('debug') ? 'DEBUG' : 'WARN';
  return new DefaultLogger(least, ({ level, message, meta }) => {
    const { workflowId, error, ...rest } = (meta ?? {}) as Record<string, unknown>;
    const about = typeof workflowId === 'string' ? { session: workflowId } : {};
    sdk[levels[level]]({ ...rest, ...about, ...(error === undefined ? {} : { err: error }) }, message);
  });
}

/** A port of the loopback interface that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
