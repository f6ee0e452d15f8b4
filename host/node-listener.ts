import type { IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import type { Host } from './host.ts';

/** A listener for `node:http`; Express takes it as a middleware. */
export type NodeListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The host as a listener for servers that have Node's requests instead of `fetch`: `node:http`, Express, Fastify. */
export function nodeListener(host: Pick<Host, 'fetch'>): NodeListener {
  // The globals of the application stay as they are.
  const listener = getRequestListener(host.fetch, { overrideGlobalObjects: false });
  return async (request, response) => {
    keepReadBody(request);
    await listener(request, response);
  };
}

/** A parser of the application, such as `express.json()`, may have read the body before. */
function keepReadBody(request: IncomingMessage & { body?: unknown; rawBody?: Buffer }): void {
  const { body } = request;
  if (!request.readableEnded || body === undefined || request.rawBody !== undefined) return;
  request.rawBody = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}
