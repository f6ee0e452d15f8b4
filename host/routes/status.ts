import type { TurnEvent } from '../../client/turns.ts';
import { sessionStatus } from '../../wire/responses.ts';
import { sessionRef } from '../../wire/requests.ts';
import { type Api, events, json } from '../api.ts';
import type { RouteParts } from '../context.ts';
import { problemOf } from '../problem.ts';
import { eventStream, namedEvent } from '../sse.ts';
import { expiryOf } from '../expiry.ts';

/** What a session is doing: now, and as it changes. */
export function statusRoutes(api: Api, { client, readers, log, closing }: RouteParts): void {
  api.get(
    '/api/sessions/:id/status',
    {
      operationId: 'getStatus',
      tag: 'Sessions',
      summary: 'What a session is doing',
      params: { id: sessionRef },
      answers: { 200: json(sessionStatus, 'Its status') },
      errors: ['SessionNotFound'],
    },
    async (c, { user, params }) => c.json(await client.reads.status(user, params.id)),
  );

  api.get(
    '/api/sessions/:id/events',
    {
      operationId: 'followSession',
      tag: 'Sessions',
      summary: 'Follow what a session is doing',
      description:
        'Stays open until its reader goes away, or until the token expires. Comments keep the connection alive.',
      params: { id: sessionRef },
      answers: {
        200: events(
          'Events, the data of each in JSON: `status`, the SessionStatus as it is and each time that it changes; ' +
            '`session { phase, project_id, pending_tool }`; `turn-started { message_id, run_seq }`; `turn-finished ' +
            '{ message_id, run_seq, outcome: finish | abort | error, code?, message? }`; `error`, problem details, ' +
            'or `expired`, problem details, where the token has expired: with either the stream ends.',
        ),
      },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const session = await client.reads.sessionId(user, params.id);
      return eventStream<TurnEvent>({
        read: (signal) => client.events(user, session, { signal }),
        write: ({ event, data }) => namedEvent(event, data),
        fail: (error) => {
          log.error({ err: error, session }, 'a stream of events failed');
          return namedEvent('error', problemOf(error));
        },
        closing,
        expiry: expiryOf(c),
        onOver: readers.admit(user, 'events'),
      });
    },
  );
}
