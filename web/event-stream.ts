/** What a stream tells of itself. */
export interface StreamHandlers {
  /** A connection is tried; its first event says that it stands. */
  connecting(): void;
  /** There is no connection; another one is tried. */
  lost(): void;
}

/** EventSource gives up when it is answered with an error; we do not. */
const AGAIN_MS = 2_000;

/**
 * Follows a stream of named events in JSON while the tab is to be seen. A hidden one lets go of its connection: browsers
 * allow six to a server over HTTP/1.1, shared by all tabs.
 */
export class EventStream<Events extends object> {
  private readonly url: string;
  private readonly handlers: StreamHandlers;
  private readonly listeners: { [Name in keyof Events]: (data: Events[Name]) => void };
  private readonly closing = new AbortController();
  private source: EventSource | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;

  constructor(
    url: string,
    listeners: { [Name in keyof Events]: (data: Events[Name]) => void },
    handlers: StreamHandlers,
  ) {
    this.url = url;
    this.listeners = listeners;
    this.handlers = handlers;
    document.addEventListener('visibilitychange', () => this.follow(), { signal: this.closing.signal });
    this.follow();
  }

  close(): void {
    this.closing.abort();
    clearTimeout(this.again);
    this.source?.close();
  }

  private follow(): void {
    clearTimeout(this.again);
    this.source?.close();
    this.source = document.visibilityState === 'visible' ? this.connect() : undefined;
  }

  private connect(): EventSource {
    const source = new EventSource(this.url);
    this.handlers.connecting();
    for (const name of Object.keys(this.listeners) as (keyof Events & string)[]) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        this.listeners[name](JSON.parse(event.data) as Events[typeof name]);
      });
    }
    source.addEventListener('error', (event) => {
      // The server's own event of this name: it says what is wrong there, and then hangs up.
      if (event instanceof MessageEvent) return;
      this.handlers.lost();
      this.handlers.connecting();
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.again);
      this.again = setTimeout(() => this.follow(), AGAIN_MS);
    });
    return source;
  }
}
