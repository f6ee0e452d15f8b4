import type { MiddlewareHandler } from 'hono';
import { PerdureError } from '../../domain/errors.ts';

/** Each holds its body, up to 1 MiB by default, and may wait for a connection to Postgres. */
const MAX_REQUESTS = 2_000;

/**
 * Refuses requests while too many are in progress, before anything of them is read. A stream counts until its response begins.
 * @throws {PerdureError} `Unavailable`
 */
export function limitRequests(most: number = MAX_REQUESTS): MiddlewareHandler {
  let inProgress = 0;
  return async (_c, next) => {
    if (inProgress >= most) {
      const message = `this host has ${most} requests in progress (PERDURE_MAX_REQUESTS); try again in a moment`;
      throw new PerdureError('Unavailable', message);
    }
    inProgress += 1;
    try {
      await next();
    } finally {
      inProgress -= 1;
    }
  };
}
