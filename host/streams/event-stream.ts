import { MAX_TIMER_MS } from '../../domain/timer.ts';

/** Shorter than the idle timeouts of common proxies. */
const KEEP_ALIVE_MS = 15_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
};

export interface EventStreamOptions<T> {
  /** Yields items until the signal fires (the reader has disconnected or the stream is over). */
  read(signal: AbortSignal): AsyncGenerator<T>;
  /** Formats one item as events, each ending with a blank line. */
  write(item: T): string;
  /** Sent last when `read` ends. */
  end?: string;
  /** Formats the last event of a stream whose `read` threw. */
  fail(error: unknown): string;
  headers?: Record<string, string>;
  /** When it fires, the connection is aborted without a last event, so that the reader reconnects. */
  closing: AbortSignal;
  /** When the reader's token expires, and the last event sent then. */
  expiry?: { at: number; event: string } | undefined;
  /** Called once when the stream is over, for any reason. */
  onOver?(): void;
  keepAliveMs?: number;
}

/**
 * A response that streams server-sent events. The next item is read only when the connection can accept it, so a slow
 * reader neither delays others nor fills memory. A disconnected reader ends `read` and has no other effect.
 */
export function eventStream<T>(options: EventStreamOptions<T>): Response {
  const body = new ReadableStream<Uint8Array>(new EventSource(options));
  return new Response(body, { headers: { ...HEADERS, ...options.headers } });
}

class EventSource<T> implements UnderlyingDefaultSource<Uint8Array> {
  private readonly options: EventStreamOptions<T>;
  private readonly items: AsyncGenerator<T>;
  private readonly encoder = new TextEncoder();
  /** Fires when the stream is over. */
  private readonly over = new AbortController();
  private keepAlive: NodeJS.Timeout | undefined;
  private expiry: NodeJS.Timeout | undefined;

  constructor(options: EventStreamOptions<T>) {
    this.options = options;
    this.items = options.read(this.over.signal);
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { closing, keepAliveMs = KEEP_ALIVE_MS } = this.options;
    const abort = () => {
      this.finish();
      controller.error(new Error('the host stops'));
    };
    if (closing.aborted) return abort();
    closing.addEventListener('abort', abort, { once: true, signal: this.over.signal });
    this.keepAlive = setTimeout(() => {
      this.keepAlive?.refresh();
      // No keep-alives while the reader has not accepted earlier data.
      if ((controller.desiredSize ?? 0) > 0) this.send(controller, ': keep-alive\n\n');
    }, keepAliveMs).unref();
    this.expire(controller);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const next = await this.items.next();
      if (this.over.signal.aborted) return;
      if (next.done === true) this.close(controller, this.options.end ?? '');
      else this.send(controller, this.options.write(next.value));
    } catch (error) {
      if (!this.over.signal.aborted) this.close(controller, this.options.fail(error));
    }
  }

  cancel(): void {
    this.finish();
  }

  /** Closes the stream when its reader's token expires. */
  private expire(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { expiry } = this.options;
    if (expiry === undefined) return;
    const left = expiry.at - Date.now();
    if (left <= 0) this.close(controller, expiry.event);
    else this.expiry = setTimeout(() => this.expire(controller), Math.min(left, MAX_TIMER_MS)).unref();
  }

  private send(controller: ReadableStreamDefaultController<Uint8Array>, text: string): void {
    this.keepAlive?.refresh();
    if (text !== '') controller.enqueue(this.encoder.encode(text));
  }

  private close(controller: ReadableStreamDefaultController<Uint8Array>, last: string): void {
    this.send(controller, last);
    controller.close();
    this.finish();
  }

  private finish(): void {
    if (this.over.signal.aborted) return;
    clearTimeout(this.keepAlive);
    clearTimeout(this.expiry);
    this.over.abort();
    this.items.return(undefined).catch(() => {});
    this.options.onOver?.();
  }
}

/** One event of a UI message stream. */
export function dataLine(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** An event with a name. */
export function namedEvent(event: string, value: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(value)}\n\n`;
}
