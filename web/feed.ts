import type { SessionStatus } from '../domain/runs.ts';
import type { SessionState } from './api.ts';

/** What a feed tells. */
export interface FeedHandlers {
  /** A connection stands, this is the status now. What happened while there was none is not told. */
  connected(): void;
  /** There is no connection; another one is tried. */
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

/** EventSource gives up when it is answered with an error; we do not. */
const AGAIN_MS = 2_000;

/**
 * Follows a session's events while the tab is to be seen. A hidden one lets go of its connection: browsers allow six to
 * a server over HTTP/1.1, shared by all tabs.
 */
export class Feed {
  private readonly url: string;
  private readonly handlers: FeedHandlers;
  private source: EventSource | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;

  constructor(url: string, handlers: FeedHandlers) {
    this.url = url;
    this.handlers = handlers;
    document.addEventListener('visibilitychange', () => this.follow());
    this.follow();
  }

  private follow(): void {
    clearTimeout(this.again);
    this.source?.close();
    this.source = document.visibilityState === 'visible' ? this.connect() : undefined;
  }

  private connect(): EventSource {
    const source = new EventSource(this.url);
    const { handlers } = this;
    let isNew = true;
    listen(source, 'status', (status) => {
      handlers.status(status);
      if (isNew) handlers.connected();
      isNew = false;
    });
    listen(source, 'session', (state) => handlers.session(state));
    listen(source, 'turn-started', ({ message_id }) => handlers.turnStarted(message_id));
    listen(source, 'turn-finished', ({ message_id }) => handlers.turnFinished(message_id));
    source.addEventListener('error', (event) => {
      // The server's own event of this name: it says what is wrong there, and then hangs up.
      if (event instanceof MessageEvent) return;
      isNew = true;
      handlers.lost();
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.again);
      this.again = setTimeout(() => this.follow(), AGAIN_MS);
    });
    return source;
  }
}

function listen<Name extends keyof FeedEvents>(
  source: EventSource,
  name: Name,
  handle: (data: FeedEvents[Name]) => void,
): void {
  source.addEventListener(name, (event: MessageEvent<string>) => handle(JSON.parse(event.data) as FeedEvents[Name]));
}
