import { createServer, type Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import type { OrderlyStop } from './stop.ts';

/** What a server of HTTP puts up with. */
export interface ServerLimits {
  /** A request has come whole by then, in milliseconds, or is refused; a connection has one by then. */
  requestTimeoutMs: number;
  /** Connections beyond are closed at once. */
  maxConnections: number;
}

/** How often at least connections are looked at, in milliseconds. */
const LOOK_MS = 5_000;

/** A server that does not wait for slow senders. It listens nowhere yet. */
export function createLimitedServer(serve: OrderlyStop['serve'], limits: ServerLimits): Server {
  const { requestTimeoutMs, maxConnections } = limits;
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(LOOK_MS, Math.ceil(requestTimeoutMs / 4)),
  };
  const server = createAdaptorServer({ fetch: serve, createServer, serverOptions }) as Server;
  server.maxConnections = maxConnections;
  return server;
}
