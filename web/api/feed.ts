import type { SessionStatus } from '../../domain/runs.ts';
import type { SessionFacts } from './api.ts';
import { EventStream } from './event-stream.ts';

/** Callbacks for a session's events. */
export interface FeedHandlers {
  /** Connected. Events since the last connection are not repeated. */
  connected(): void;
  /** The connection is lost and will be retried. */
  lost(): void;
  status(status: SessionStatus): void;
  session(session: SessionFacts): void;
  /** Scoped state has changed. */
  stateChanged(): void;
  /** Permission rules have changed. */
  rulesChanged(): void;
  turnStarted(messageId: string): void;
  /** A tool call waits for an answer, or for a page to carry it out. */
  callWaits(): void;
  turnFinished(messageId: string, outcome: 'finish' | 'abort' | 'error'): void;
}

interface FeedEvents {
  status: SessionStatus;
  session: SessionFacts;
  state: unknown;
  permissions: unknown;
  'turn-started': { message_id: string };
  'approval-requested': unknown;
  'output-requested': unknown;
  'turn-finished': { message_id: string; outcome: 'finish' | 'abort' | 'error' };
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
      session: (session) => handlers.session(session),
      state: () => handlers.stateChanged(),
      permissions: () => handlers.rulesChanged(),
      'turn-started': ({ message_id }) => handlers.turnStarted(message_id),
      'approval-requested': () => handlers.callWaits(),
      'output-requested': () => handlers.callWaits(),
      'turn-finished': ({ message_id, outcome }) => handlers.turnFinished(message_id, outcome),
    },
    { connecting: () => (isNew = true), lost: () => handlers.lost() },
  );
}
