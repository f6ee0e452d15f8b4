import { createServer, type Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import type { OrderlyStop } from './stop.ts';

/** Limits of an HTTP server. */
export interface ServerLimits {
  /** Milliseconds within which a request must have arrived completely, and a new connection must send one. */
  requestTimeoutMs: number;
  /** Further connections are closed at once. */
  maxConnections: number;
}

/** Longest time between two checks for slow requests, in milliseconds. */
const LOOK_MS = 5_000;

/** A server that limits slow senders and connections. It does not listen yet. */
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
