/** Proxies close connections that are silent for longer. */
const KEEP_ALIVE_MS = 15_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
};

export interface EventStreamOptions<T> {
  /** Reads until the signal fires, which it does when the reader is gone. */
  read(signal: AbortSignal): AsyncGenerator<T>;
  /** The lines of one item, each event with its blank line. */
  write(item: T): string;
  /** The last lines of a stream that has ended well. */
  end?: string;
  /** The last lines of one that failed. */
  fail(error: unknown): string;
  headers?: Record<string, string>;
  /** Fires when the stream is to be cut off: its reader sees a broken connection, and so comes again. */
  closing: AbortSignal;
  /** Called once when the stream is over, whoever ended it. */
  onOver?(): void;
  keepAliveMs?: number;
}

/**
 * A response that streams events. Items are read when the connection can take them, so that a slow reader holds nothing
 * up and costs no memory: what has gathered meanwhile comes in one reading. A reader that goes away ends the reading
 * and nothing else.
 */
export function eventStream<T>(options: EventStreamOptions<T>): Response {
  const gone = new AbortController();
  const body = new ReadableStream<Uint8Array>(new EventSource(options, gone));
  return new Response(body, { headers: { ...HEADERS, ...options.headers } });
}

class EventSource<T> implements UnderlyingDefaultSource<Uint8Array> {
  private readonly options: EventStreamOptions<T>;
  private readonly gone: AbortController;
  private readonly items: AsyncGenerator<T>;
  private readonly encoder = new TextEncoder();
  private next: Promise<IteratorResult<T, unknown>> | undefined;
  private readonly done = new AbortController();
  private over = false;

  constructor(options: EventStreamOptions<T>, gone: AbortController) {
    this.options = options;
    this.gone = gone;
    this.items = options.read(gone.signal);
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const cut = () => {
      if (this.over) return;
      this.cancel();
      controller.error(new Error('the host stops'));
    };
    if (this.options.closing.aborted) cut();
    else this.options.closing.addEventListener('abort', cut, { once: true, signal: this.done.signal });
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const send = (text: string) => text !== '' && controller.enqueue(this.encoder.encode(text));
    try {
      const found = await this.itemOrSilence();
      if (this.gone.signal.aborted) return;
      if (found === 'silence') return void send(': keep-alive\n\n');
      if (!found.done) return void send(this.options.write(found.value));
      send(this.options.end ?? '');
    } catch (error) {
      if (this.gone.signal.aborted) return;
      send(this.options.fail(error));
    }
    controller.close();
    this.finish();
  }

  cancel(): void {
    this.gone.abort();
    this.finish();
    this.items.return(undefined).catch(() => {});
  }

  private async itemOrSilence(): Promise<IteratorResult<T, unknown> | 'silence'> {
    this.next ??= this.items.next();
    const { promise, resolve } = Promise.withResolvers<'silence'>();
    const timer = setTimeout(() => resolve('silence'), this.options.keepAliveMs ?? KEEP_ALIVE_MS);
    const found = await Promise.race([this.next, promise]).finally(() => clearTimeout(timer));
    if (found !== 'silence') this.next = undefined;
    return found;
  }

  private finish(): void {
    if (this.over) return;
    this.over = true;
    this.done.abort();
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
