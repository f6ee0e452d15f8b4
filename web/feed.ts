import type { SessionStatus } from '../domain/runs.ts';
import type { SessionState } from './api.ts';
import { EventStream } from './event-stream.ts';

/** Callbacks for a session's events. */
export interface FeedHandlers {
  /** Connected. Events since the last connection are not repeated. */
  connected(): void;
  /** The connection is lost and will be retried. */
  lost(): void;
  status(status: SessionStatus): void;
  session(state: SessionState): void;
  turnStarted(messageId: string): void;
  turnFinished(messageId: string): void;
}

interface FeedEvents {
  status: SessionStatus;
  session: SessionState;
  'turn-started': { message_id: string };
  'turn-finished': { message_id: string };
}

/** Follows a session's events until the page is closed. */
export function followSession(url: string, handlers: FeedHandlers): EventStream<FeedEvents> {
  let isNew = true;
  return new EventStream<FeedEvents>(
    url,
    {
      status: (status) => {
        handlers.status(status);
        if (isNew) handlers.connected();
        isNew = false;
      },
      session: (state) => handlers.session(state),
      'turn-started': ({ message_id }) => handlers.turnStarted(message_id),
      'turn-finished': ({ message_id }) => handlers.turnFinished(message_id),
    },
    { connecting: () => (isNew = true), lost: () => handlers.lost() },
  );
}
