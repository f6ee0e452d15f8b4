import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { PerdureError } from '../domain/errors.ts';
import type { Host } from './host.ts';
import { problemOf, problemResponse } from './problem.ts';

/** Durations in milliseconds. */
export interface Stopping {
  /** From `/readyz` answering 503 to refusing connections: load balancers need a moment to notice. */
  drainDelayMs: number;
  /** How long requests in progress may still take. */
  graceMs: number;
}

/**
 * Serves a host until it is told to stop, and then shuts it down so that callers lose nothing but a connection:
 *
 * 1. `/readyz` answers 503 and every response closes its connection. Everything is still served.
 * 2. After the delay new connections are refused, and requests on open ones get 503. Streams are broken off between two
 *    events, without a last one, so that their readers reconnect.
 * 3. Requests in progress may finish until the grace period is over.
 */
export class OrderlyStop {
  private readonly host: Host;
  private readonly readerTimeoutMs: number;
  private readonly streams = new Set<ServerResponse>();
  private draining = false;
  private ended = false;

  /** Connections whose reader accepts no data for `readerTimeoutMs` are closed. */
  constructor(host: Host, readerTimeoutMs: number) {
    this.host = host;
    this.readerTimeoutMs = readerTimeoutMs;
  }

  /** The host's response; `outgoing` is the ServerResponse of the HTTP/1 server that sends it. */
  readonly serve = async (request: Request, { outgoing }: { outgoing: object }): Promise<Response> => {
    const carrier = outgoing as ServerResponse;
    cutOffIdle(carrier, this.readerTimeoutMs);
    const response = await (this.ended ? gone() : this.host.fetch(request));
    if (isStream(response)) {
      if (this.ended) return gone(response);
      this.streams.add(carrier);
      carrier.once('close', () => this.streams.delete(carrier));
    }
    if (!this.draining) return response;
    response.headers.set('connection', 'close');
    return new URL(request.url).pathname === '/readyz' ? notReady(response) : response;
  };

  /** Ends the server; settles when it is closed. */
  async stop(server: Server, { drainDelayMs, graceMs }: Stopping): Promise<void> {
    this.draining = true;
    await sleep(drainDelayMs);
    const closed = once(server, 'close');
    this.ended = true;
    server.close();
    for (const stream of this.streams) breakOff(stream);
    await Promise.race([closed, sleep(graceMs, undefined, { ref: false })]);
    server.closeAllConnections();
    await closed;
  }
}

/** Closes a connection whose reader accepts no data. A stream that has nothing to send stays open. */
function cutOffIdle(answer: ServerResponse, afterMs: number): void {
  answer.setTimeout(afterMs, () => {
    if ((answer.socket?.writableLength ?? 0) > 0) answer.destroy();
  });
}

async function notReady(response: Response): Promise<Response> {
  const readiness = (await response.json()) as object;
  return Response.json({ ...readiness, ready: false }, { status: 503, headers: { connection: 'close' } });
}

/** The response of a host that has stopped, instead of one that came too late. */
async function gone(late?: Response): Promise<Response> {
  await late?.body?.cancel();
  const error = new PerdureError('Unavailable', 'this host is stopping; send the request to another one');
  const response = problemResponse(problemOf(error));
  response.headers.set('connection', 'close');
  return response;
}

/** Data that was written is still sent, unless the reader does not accept it. */
function breakOff(stream: ServerResponse): void {
  if (stream.writableNeedDrain) stream.destroy();
  else stream.socket?.destroySoon();
}

function isStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}
