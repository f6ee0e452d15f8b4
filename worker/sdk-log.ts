import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Sends what the SDK says to our log. Once a process, before any worker is made. */
export function logSdkTo(log: Logger): void {
  const sdk = log.child({ source: 'temporal' });
  const levels = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;
  const logger = new DefaultLogger('WARN', ({ level, message, meta }) => {
    sdk[levels[level]](meta ?? {}, message);
  });
  Runtime.install({ logger });
}
