import { EventSourceParserStream } from 'eventsource-parser/stream';
import { access } from './access.ts';

/** What a stream tells of itself. */
export interface StreamHandlers {
  /** A connection is tried; its first event says that it stands. */
  connecting(): void;
  /** There is no connection; another one is tried. */
  lost(): void;
}

/** How long after a connection has broken the next one is tried: each time twice as long, give or take a half. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** The server says something every 15 s at least. One that has been silent for so long is not there any more. */
const SILENCE_MS = 40_000;

/**
 * Follows a stream of named events in JSON while the tab is to be seen. A hidden one lets go of its connection: browsers
 * allow six to a server over HTTP/1.1, shared by all tabs. Not an EventSource, for that can send no token, gives up when
 * it is answered with an error, and does not notice a connection that is dead but open.
 */
export class EventStream<Events extends object> {
  private readonly url: string;
  private readonly handlers: StreamHandlers;
  private readonly listeners: { [Name in keyof Events]: (data: Events[Name]) => void };
  private readonly closing = new AbortController();
  private reading: AbortController | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
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
    signal.addEventListener(
      'abort',
      access.onEntry(() => this.follow()),
    );
    this.follow();
  }

  close(): void {
    this.closing.abort();
    this.follow();
  }

  /** Begins anew, or lets go where there is nothing to follow. */
  private follow(): void {
    clearTimeout(this.again);
    this.reading?.abort();
    this.reading = undefined;
    if (this.closing.signal.aborted || document.visibilityState !== 'visible' || access.isAsked) return;
    this.reading = new AbortController();
    this.handlers.connecting();
    void this.read(this.reading);
  }

  private async read(reading: AbortController): Promise<void> {
    const isLetIn = await this.readAll(reading).catch(() => true);
    if (reading.signal.aborted && reading !== this.reading) return;
    // Once the user has given a token it goes on; until then nothing is lost but a stranger's way in.
    if (!isLetIn) return;
    this.handlers.lost();
    this.again = setTimeout(() => this.follow(), this.wait * (0.5 + Math.random()));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  /** Reads to the end. False where the server wants to know who is calling. */
  private async readAll(reading: AbortController): Promise<boolean> {
    let silence = setTimeout(() => reading.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => reading.abort(), SILENCE_MS);
    };
    try {
      const { ok, status, body } = await access.fetch(this.url, { signal: reading.signal, cache: 'no-store' });
      if (!ok || body === null) return status !== 401;
      const parser = new EventSourceParserStream({ onComment: heard });
      const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(parser).getReader();
      for (let next = await events.read(); !next.done; next = await events.read()) {
        heard();
        this.tell(next.value.event, next.value.data);
      }
      return true;
    } finally {
      clearTimeout(silence);
    }
  }

  private tell(name: string | undefined, data: string): void {
    // The server's own `error` is no event of ours: it hangs up after it.
    if (name === undefined || !Object.hasOwn(this.listeners, name)) return;
    this.wait = FIRST_WAIT_MS;
    const event = name as keyof Events;
    this.listeners[event](JSON.parse(data) as Events[typeof event]);
  }
}
