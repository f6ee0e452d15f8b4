import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { PerdureError } from '../../domain/errors.ts';
import { problemOfError, problemResponse } from '../http/problem.ts';

/** What answers requests. */
export interface FetchHandler {
  fetch: (request: Request) => Response | Promise<Response>;
}

/** Durations in milliseconds. */
export interface Stopping {
  /** Time between `/readyz` returning 503 and refusing connections, in which load balancers notice. */
  drainDelayMs: number;
  /** Maximum time for requests in progress to finish. */
  graceMs: number;
}

/**
 * Serves a host, and shuts it down gracefully: callers lose at most a connection and reconnect.
 *
 * 1. `/readyz` returns 503 and every response closes its connection. Everything is still served.
 * 2. After the delay, new connections are refused and requests on open ones get 503. Streams are aborted between two
 *    events, without a last event, so that their readers reconnect.
 * 3. Requests in progress may finish within the grace period.
 */
export class OrderlyStop {
  private readonly host: FetchHandler;
  private readonly readerTimeoutMs: number;
  private readonly streams = new Set<ServerResponse>();
  private draining = false;
  private ended = false;

  /** Connections whose reader accepts no data for `readerTimeoutMs` are closed. */
  constructor(host: FetchHandler, readerTimeoutMs: number) {
    this.host = host;
    this.readerTimeoutMs = readerTimeoutMs;
  }

  /** The host's response; `outgoing` is the ServerResponse of the HTTP/1 server that sends it. */
  readonly serve = async (request: Request, { outgoing }: { outgoing: object }): Promise<Response> => {
    const connection = outgoing as ServerResponse;
    closeIfNotReading(connection, this.readerTimeoutMs);
    const response = await (this.ended ? stoppingResponse() : this.host.fetch(request));
    if (isEventStream(response)) {
      if (this.ended) return stoppingResponse(response);
      this.streams.add(connection);
      connection.once('close', () => this.streams.delete(connection));
    }
    if (!this.draining) return response;
    response.headers.set('connection', 'close');
    return new URL(request.url).pathname === '/readyz' ? notReady(response) : response;
  };

  /** Stops the server; settles when it is closed. */
  async stop(server: Server, { drainDelayMs, graceMs }: Stopping): Promise<void> {
    this.draining = true;
    await sleep(drainDelayMs);
    const closed = once(server, 'close');
    this.ended = true;
    server.close();
    for (const stream of this.streams) endStream(stream);
    await Promise.race([closed, sleep(graceMs, undefined, { ref: false })]);
    server.closeAllConnections();
    await closed;
  }
}

/** Closes a connection whose reader accepts no data. An idle stream with nothing to send stays open. */
function closeIfNotReading(connection: ServerResponse, afterMs: number): void {
  connection.setTimeout(afterMs, () => {
    if ((connection.socket?.writableLength ?? 0) > 0) connection.destroy();
  });
}

async function notReady(response: Response): Promise<Response> {
  const readiness = (await response.json()) as object;
  return Response.json({ ...readiness, ready: false }, { status: 503, headers: { connection: 'close' } });
}

/** The 503 response of a stopping host, replacing a response that came too late. */
async function stoppingResponse(late?: Response): Promise<Response> {
  await late?.body?.cancel();
  const error = new PerdureError('Unavailable', 'this host is stopping; send the request to another one');
  const response = problemResponse(problemOfError(error));
  response.headers.set('connection', 'close');
  return response;
}

/** Ends a stream after the data already written, or at once if the reader accepts no data. */
function endStream(stream: ServerResponse): void {
  if (stream.writableNeedDrain) stream.destroy();
  else stream.socket?.destroySoon();
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}
