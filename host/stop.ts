import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { PerdureError } from '../domain/errors.ts';
import type { Host } from './host.ts';
import { problemOf, problemResponse } from './problem.ts';

/** Durations in milliseconds. */
export interface Stopping {
  /** Between saying that it stops and taking no more connections: balancers need a moment to look. */
  drainDelayMs: number;
  /** How long requests that are being answered may take. */
  graceMs: number;
}

/**
 * Serves a host until it is told to stop, and then ends it so that nobody loses anything but a connection:
 *
 * 1. `/readyz` is false, and every answer closes its connection. Everything is still served.
 * 2. After the delay no connection is taken any more, and what comes over one that is there is 503. Streams break off
 *    between two events, without their last one: so readers know that there is more, and come again.
 * 3. Requests are answered to their end, or until the grace is over.
 */
export class OrderlyStop {
  private readonly host: Host;
  private readonly readerTimeoutMs: number;
  private readonly streams = new Set<ServerResponse>();
  private draining = false;
  private ended = false;

  /** Readers that take nothing for `readerTimeoutMs` are cut off. */
  constructor(host: Host, readerTimeoutMs: number) {
    this.host = host;
    this.readerTimeoutMs = readerTimeoutMs;
  }

  /** What the host answers; `outgoing` is the ServerResponse that carries it, of a server of HTTP/1. */
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

/** Cuts an answer off that is not taken. Where there is nothing to say nothing moves either, and that is well. */
function cutOffIdle(answer: ServerResponse, afterMs: number): void {
  answer.setTimeout(afterMs, () => {
    if ((answer.socket?.writableLength ?? 0) > 0) answer.destroy();
  });
}

async function notReady(response: Response): Promise<Response> {
  const readiness = (await response.json()) as object;
  return Response.json({ ...readiness, ready: false }, { status: 503, headers: { connection: 'close' } });
}

/** The answer of a host that has ended, in the place of one that came too late. */
async function gone(late?: Response): Promise<Response> {
  await late?.body?.cancel();
  const error = new PerdureError('Unavailable', 'this host stops: send the request again, to another one');
  const response = problemResponse(problemOf(error));
  response.headers.set('connection', 'close');
  return response;
}

/** What was written is still sent, to a reader that takes it. */
function breakOff(stream: ServerResponse): void {
  if (stream.writableNeedDrain) stream.destroy();
  else stream.socket?.destroySoon();
}

function isStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}
