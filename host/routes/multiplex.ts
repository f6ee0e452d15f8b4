import type { MiddlewareHandler } from 'hono';
import { PerdureError } from '../../domain/errors.ts';
import { MULTIPLEX_HEADER, type MultiplexEvent } from '../../domain/multiplex.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { multiplexedStream, multiplexConnectionRef, multiplexStreamRef } from '../../wire/requests.ts';
import { type Api, EVENT_STREAM, events } from '../api/api.ts';
import { expiryOf } from '../api/expiry.ts';
import type { HostEnv, RouteParts } from '../context.ts';
import { loggedProblem } from '../http/problem.ts';
import { eventStream, namedEvent } from '../streams/event-stream.ts';
import type { Multiplexer } from '../streams/multiplexer.ts';

/** One connection for many streams, for browsers, which have six HTTP/1.1 connections per server. */
export function multiplexRoutes(api: Api, { multiplexer, readers, log, closing }: RouteParts): void {
  api.get(
    '/api/multiplex',
    {
      operationId: 'multiplex',
      tag: 'Operation',
      summary: 'Open a connection that carries the streams of other requests',
      description:
        `Requests of the same user that are answered with a stream may name this connection in the header ${MULTIPLEX_HEADER}. ` +
        'Stays open until the reader disconnects or the token expires; its streams end with it. Comments keep it alive.',
      params: {},
      responses: {
        200: events(
          'Events with JSON data: `opened { connection }`, its name, first; `piece { stream, text }`, what a stream goes on ' +
            'with; `end { stream, complete }`, its end, `complete` unless it was cut off. `error` and `expired` (the token has ' +
            'expired) hold problem details and end the connection.',
        ),
      },
      errors: ['TooMany'],
    },
    (c, { user }) => {
      const release = readers.admit(user, 'multiplex');
      const connection = multiplexer.open(user);
      return eventStream<MultiplexEvent[]>({
        read: (signal) => connection.events(signal),
        write: (batch) => batch.map(({ event, data }) => namedEvent(event, data)).join(''),
        fail: (error) => namedEvent('error', loggedProblem(error, log, {})),
        closing,
        expiry: expiryOf(c),
        onOver: () => {
          release();
          multiplexer.close(connection);
        },
      });
    },
  );

  api.delete(
    '/api/multiplex/:connection/:stream',
    {
      operationId: 'endMultiplexed',
      tag: 'Operation',
      summary: 'End a stream that a connection carries, as a reader does who disconnects',
      params: { connection: multiplexConnectionRef, stream: multiplexStreamRef },
      responses: { 204: { description: 'It is over; also if the connection has no such stream' } },
      errors: ['NotFound'],
    },
    (c, { user, params }) => {
      const connection = multiplexer.find(user, params.connection);
      if (connection === undefined) throw new PerdureError('NotFound', 'this host has no such connection');
      connection.end(params.stream);
      return c.body(null, 204);
    },
  );
}

/**
 * Gives the stream of a response to the connection that the request names, and answers 202 at once. A stream whose connection
 * is not (or no longer) at this host, or is another user's, is the response's own, as without the header.
 * @throws {InvalidInputError} for a header that is none, or a name that the connection has already
 */
export function multiplexing(multiplexer: Multiplexer): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    const named = c.req.header(MULTIPLEX_HEADER);
    if (named === undefined || c.req.method === 'HEAD') return next();
    const [id, stream] = parseInput(multiplexedStream, named, [MULTIPLEX_HEADER]).split('/') as [string, string];
    const connection = multiplexer.find(c.get('user'), id);
    if (connection?.has(stream) === true) {
      throw new InvalidInputError([
        { field: MULTIPLEX_HEADER, expected: 'a stream that the connection does not have yet' },
      ]);
    }
    await next();
    const { body, headers } = c.res;
    if (connection === undefined || body === null || !isEventStream(headers)) return;
    // Its reader has left meanwhile: the body is cancelled with the response.
    if (c.req.raw.signal.aborted || !connection.carry(stream, body)) return;
    const kept = new Headers(headers);
    kept.delete('content-type');
    kept.set(MULTIPLEX_HEADER, named);
    // Hono adds the headers of a response that is replaced.
    c.res = undefined;
    c.res = new Response(null, { status: 202, headers: kept });
  };
}

function isEventStream(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith(EVENT_STREAM) === true;
}
