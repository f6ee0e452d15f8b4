import { access } from './access.ts';
import { readEventStream } from './read-event-stream.ts';

/** Callbacks for the state of the connection. */
export interface StreamHandlers {
  /** A connection attempt has started; the first event shows that it succeeded. */
  connecting(): void;
  /** The connection is lost and will be retried. */
  lost(): void;
}

/** Reconnect delays: exponential backoff with 50 % jitter. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;

/**
 * Follows a stream of named events with JSON data while the tab is visible. A hidden tab closes it, because it costs the
 * server as much as one that is looked at, and may need one of the browser's six HTTP/1.1 connections per server. This is no
 * EventSource, because that cannot send a token, does not retry after an error response, and does not detect a dead connection.
 */
export class EventStream<Events extends object> {
  private readonly url: string;
  private readonly handlers: StreamHandlers;
  private readonly listeners: { [Name in keyof Events]: (data: Events[Name]) => void };
  private readonly closing = new AbortController();
  private reading: AbortController | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private wait = FIRST_WAIT_MS;

  constructor(
    url: string,
    listeners: { [Name in keyof Events]: (data: Events[Name]) => void },
    handlers: StreamHandlers,
  ) {
    this.url = url;
    this.listeners = listeners;
    this.handlers = handlers;
    const { signal } = this.closing;
    document.addEventListener('visibilitychange', () => this.follow(), { signal });
    window.addEventListener('online', () => this.follow(), { signal });
    access.onAccess(() => this.follow(), signal);
    this.follow();
  }

  close(): void {
    this.closing.abort();
    this.follow();
  }

  /** Connects again at once, instead of after a while. */
  reconnect(): void {
    this.follow();
  }

  /** Reconnects, or disconnects if the tab is hidden or the stream closed. */
  private follow(): void {
    clearTimeout(this.retry);
    this.reading?.abort();
    this.reading = undefined;
    if (this.closing.signal.aborted || document.visibilityState !== 'visible' || access.isAsked) return;
    this.reading = new AbortController();
    this.handlers.connecting();
    void this.read(this.reading);
  }

  private async read(reading: AbortController): Promise<void> {
    const isAuthorized = await readEventStream(
      (signal) => access.fetchStream(this.url, { signal, cache: 'no-store' }),
      reading,
      (name, data) => this.dispatch(name, data),
    )
      .then((status) => status !== 401)
      .catch(() => true);
    if (reading.signal.aborted && reading !== this.reading) return;
    // Continues once the user has entered a token; until then the connection does not count as lost.
    if (!isAuthorized) return;
    this.handlers.lost();
    this.retry = setTimeout(() => this.follow(), this.wait * (0.5 + Math.random()));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  private dispatch(name: string | undefined, data: string): void {
    // Ignore the server's `error` event: it closes the stream next.
    if (name === undefined || !Object.hasOwn(this.listeners, name)) return;
    this.wait = FIRST_WAIT_MS;
    const event = name as keyof Events;
    this.listeners[event](JSON.parse(data) as Events[typeof event]);
  }
}
