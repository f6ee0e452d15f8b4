import type { TurnEvent } from '../../client/live/turn-event-reader.ts';
import { sessionRef } from '../../wire/requests.ts';
import { sessionStatus } from '../../wire/responses.ts';
import { type Api, events, jsonResponse, ofSession } from '../api/api.ts';
import { expiryOf } from '../api/expiry.ts';
import type { RouteParts } from '../context.ts';
import { loggedProblem } from '../http/problem.ts';
import { eventStream, namedEvent } from '../streams/event-stream.ts';

/** A session's status, once or as a stream. */
export function statusRoutes(api: Api, { client, readers, log, closing }: RouteParts): void {
  api.get(
    '/api/sessions/:id/status',
    {
      ...ofSession,
      operationId: 'getStatus',
      summary: "Read a session's status",
      responses: { 200: jsonResponse(sessionStatus, 'The status') },
    },
    async (c, { user, params }) => c.json(await client.reads.status(user, params.id)),
  );

  api.get(
    '/api/sessions/:id/events',
    {
      operationId: 'followSession',
      tag: 'Sessions',
      summary: "Follow a session's status, phase, turns and changes of state and rules",
      description: 'Stays open until the reader disconnects or the token expires. Comments keep the connection alive.',
      params: { id: sessionRef },
      responses: {
        200: events(
          'Events with JSON data: `status`, the SessionStatus, now and at each change; ' +
            '`session { phase, project_id, pending_tool, gone_back_to }`; `state { scopes, lastUpdateTime }`, in which scopes ' +
            'state has changed, which GET /state returns; `permissions {}`: rules that GET /permissions lists have changed; ' +
            '`turn-started { message_id, run_seq }`; `approval-requested` and `output-requested { message_id, run_seq, ' +
            'tool_call_id }`: a tool call waits for an answer, or for the page to carry it out; `turn-finished { message_id, ' +
            'run_seq, outcome: finish | abort | error, code?, message? }`. `error` and `expired` (the token has expired) hold ' +
            'problem details and end the stream.',
        ),
      },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const session = await client.sessionToFollow(user, params.id, { signal: c.req.raw.signal });
      return eventStream<TurnEvent>({
        read: (signal) => client.events(user, session, { signal }),
        write: ({ event, data }) => namedEvent(event, data),
        fail: (error) => namedEvent('error', loggedProblem(error, log, { session })),
        closing,
        expiry: expiryOf(c),
        onOver: readers.admit(user, 'events'),
      });
    },
  );
}
