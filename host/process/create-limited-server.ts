import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import type { OrderlyStop } from './orderly-stop.ts';

/** Limits of an HTTP server. */
export interface ServerLimits {
  /** Milliseconds within which a request must arrive completely, counted from the connection for the first one. */
  requestTimeoutMs: number;
  /** Maximum number of connections; further ones are closed at once. */
  maxConnections: number;
}

/** Maximum interval of the check for slow requests. */
const CHECK_MS = 5_000;
/** Node parses any number of pipelined requests, each of which costs memory until its response has been sent. */
const MAX_PIPELINED = 100;

/** Creates a server with limits on slow senders, connections and pipelined requests. It does not listen yet. */
export function createLimitedServer(serve: OrderlyStop['serve'], limits: ServerLimits): Server {
  const { requestTimeoutMs, maxConnections } = limits;
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, Math.ceil(requestTimeoutMs / 4)),
  };
  const server = createAdaptorServer({ fetch: serve, createServer, serverOptions }) as Server;
  server.maxConnections = maxConnections;
  limitPipelining(server);
  return server;
}

/** Closes connections with more than `MAX_PIPELINED` requests in progress. */
function limitPipelining(server: Server): void {
  const inProgress = new WeakMap<Socket, number>();
  server.on('request', ({ socket }, response) => {
    const count = (inProgress.get(socket) ?? 0) + 1;
    inProgress.set(socket, count);
    response.once('close', () => inProgress.set(socket, (inProgress.get(socket) ?? 0) - 1));
    if (count > MAX_PIPELINED) socket.destroy();
  });
}
