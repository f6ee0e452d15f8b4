import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** What the SDK measures, in Prometheus' text format. */
export type SdkMetrics = () => Promise<string>;

/**
 * Sends what the SDK and the workflows say to our log, with the session on every line about one, and takes what the SDK
 * measures. Once a process, before any worker is made.
 */
export async function installSdkRuntime(log: Logger, withMetrics: boolean): Promise<SdkMetrics | undefined> {
  const logger = sdkLogger(log);
  const logging = { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } as const;
  if (!withMetrics) {
    Runtime.install({ logger, telemetryOptions: { logging } });
    return undefined;
  }
  // The SDK serves its own numbers; only this process asks for them.
  const bindAddress = `127.0.0.1:${await freePort()}`;
  const prometheus = { bindAddress, countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true };
  Runtime.install({ logger, telemetryOptions: { logging, metrics: { prometheus, attachServiceName: false } } });
  return async () => (await fetch(`http://${bindAddress}/metrics`)).text();
}

function sdkLogger(log: Logger): DefaultLogger {
  const sdk = log.child({ source: 'temporal' });
  const levels = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;
  // What it says below a warning is of interest to those who look for it only.
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
