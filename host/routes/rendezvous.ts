import type { RendezvousEvent } from '../../domain/rendezvous.ts';
import type { App, RouteParts } from '../context.ts';
import { problemOf } from '../problem.ts';
import { eventStream, namedEvent } from '../sse.ts';

/** The caller's sessions, for each of the caller's tabs: those that are open, then what changes. */
export function rendezvousRoutes(app: App, { client, metrics, log, closing }: RouteParts): void {
  app.get('/api/rendezvous', (c) => {
    const user = c.get('user');
    return eventStream<RendezvousEvent[]>({
      read: (signal) => client.rendezvousInBatches(user, { signal }),
      write: (events) => events.map((data) => namedEvent(data.event, data)).join(''),
      fail: (error) => {
        log.error({ err: error }, 'a rendezvous failed');
        return namedEvent('error', problemOf(error));
      },
      closing,
      onOver: metrics.streamOpened('rendezvous'),
    });
  });
}
