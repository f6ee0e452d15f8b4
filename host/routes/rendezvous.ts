import type { RendezvousEvent } from '../../domain/rendezvous.ts';
import { type Api, events } from '../api/api.ts';
import { expiryOf } from '../api/expiry.ts';
import type { RouteParts } from '../context.ts';
import { loggedProblem } from '../http/problem.ts';
import { eventStream, namedEvent } from '../streams/event-stream.ts';

/** Streams the caller's open sessions, then their changes. */
export function rendezvousRoutes(api: Api, { client, readers, log, closing }: RouteParts): void {
  api.get(
    '/api/rendezvous',
    {
      operationId: 'followSessions',
      tag: 'Sessions',
      summary: 'Follow your own sessions: the open ones, then changes',
      description: 'Stays open until the reader disconnects or the token expires. Comments keep the connection alive.',
      params: {},
      responses: {
        200: events(
          'Events with JSON data: `session_open`, `session_update` and `session_close`, each `{ event, session_id, ' +
            'project_id, phase, agent, state, waits_for, title, alias, parent_id, updated_at }`: first one per open session, then ' +
            '`ready { event }`, then changes. `error` and `expired` (the token has expired) hold problem details and ' +
            'end the stream.',
        ),
      },
      errors: ['TooMany'],
    },
    (c, { user }) =>
      eventStream<RendezvousEvent[]>({
        read: (signal) => client.rendezvousInBatches(user, { signal }),
        write: (batch) => batch.map((data) => namedEvent(data.event, data)).join(''),
        fail: (error) => namedEvent('error', loggedProblem(error, log, {})),
        closing,
        expiry: expiryOf(c),
        onOver: readers.admit(user, 'rendezvous'),
      }),
  );
}
