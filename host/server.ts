import { createServer, type Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import type { OrderlyStop } from './stop.ts';

/** Limits of an HTTP server. */
export interface ServerLimits {
  /** Milliseconds within which a request must arrive completely, counted from the connection for the first one. */
  requestTimeoutMs: number;
  /** Maximum number of connections; further ones are closed at once. */
  maxConnections: number;
}

/** Maximum interval of the check for slow requests. */
const CHECK_MS = 5_000;

/** Creates a server with limits on slow senders and connections. It does not listen yet. */
export function createLimitedServer(serve: OrderlyStop['serve'], limits: ServerLimits): Server {
  const { requestTimeoutMs, maxConnections } = limits;
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, Math.ceil(requestTimeoutMs / 4)),
  };
  const server = createAdaptorServer({ fetch: serve, createServer, serverOptions }) as Server;
  server.maxConnections = maxConnections;
  return server;
}
