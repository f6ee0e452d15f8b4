import type { TurnEvent } from '../../client/turns.ts';
import type { App, RouteParts } from '../context.ts';
import { problemOf } from '../problem.ts';
import { eventStream, namedEvent } from '../sse.ts';

/** What a session is doing: now, and as it changes. */
export function statusRoutes(app: App, { client, metrics, log, closing }: RouteParts): void {
  app.get('/api/sessions/:id/status', async (c) => c.json(await client.reads.status(c.get('user'), c.req.param('id'))));

  app.get('/api/sessions/:id/events', async (c) => {
    const user = c.get('user');
    const session = await client.reads.sessionId(user, c.req.param('id'));
    return eventStream<TurnEvent>({
      read: (signal) => client.events(user, session, { signal }),
      write: ({ event, data }) => namedEvent(event, data),
      fail: (error) => {
        log.error({ err: error, session }, 'a stream of events failed');
        return namedEvent('error', problemOf(error));
      },
      closing,
      onOver: metrics.streamOpened('events'),
    });
  });
}
