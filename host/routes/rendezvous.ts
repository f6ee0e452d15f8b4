import type { RendezvousEvent } from '../../domain/rendezvous.ts';
import { type Api, events } from '../api.ts';
import type { RouteParts } from '../context.ts';
import { problemOf } from '../problem.ts';
import { eventStream, namedEvent } from '../sse.ts';
import { expiryOf } from '../expiry.ts';

/** The caller's sessions, for each of the caller's tabs: those that are open, then what changes. */
export function rendezvousRoutes(api: Api, { client, readers, log, closing }: RouteParts): void {
  api.get(
    '/api/rendezvous',
    {
      operationId: 'followSessions',
      tag: 'Sessions',
      summary: 'Follow your own sessions: the open ones, then changes',
      description:
        'Stays open until its reader goes away, or until the token expires. Comments keep the connection alive.',
      params: {},
      answers: {
        200: events(
          'Events, the data of each in JSON: `session_open`, `session_update` and `session_close`, each `{ event, ' +
            'session_id, project_id, phase, agent, state, title, alias, updated_at }`; first the open sessions, then ' +
            '`ready { event }`, then what changes; `error`, problem details, or `expired`, problem details, where the ' +
            'token has expired: with either the stream ends.',
        ),
      },
      errors: ['TooMany'],
    },
    (c, { user }) =>
      eventStream<RendezvousEvent[]>({
        read: (signal) => client.rendezvousInBatches(user, { signal }),
        write: (told) => told.map((data) => namedEvent(data.event, data)).join(''),
        fail: (error) => {
          log.error({ err: error }, 'a rendezvous failed');
          return namedEvent('error', problemOf(error));
        },
        closing,
        expiry: expiryOf(c),
        onOver: readers.admit(user, 'rendezvous'),
      }),
  );
}
