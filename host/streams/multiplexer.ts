import { randomUUID } from 'node:crypto';
import { AutoResetEvent } from '../../client/wait/auto-reset-event.ts';
import type { MultiplexEvent } from '../../domain/multiplex.ts';

/** The open connections that carry streams of other responses. */
export class Multiplexer {
  private readonly connections = new Map<string, MultiplexedConnection>();

  open(user: string): MultiplexedConnection {
    const connection = new MultiplexedConnection(user);
    this.connections.set(connection.id, connection);
    return connection;
  }

  /** The user's connection of that name; undefined: there is none at this host. */
  find(user: string, id: string): MultiplexedConnection | undefined {
    const found = this.connections.get(id);
    return found?.user === user ? found : undefined;
  }

  close(connection: MultiplexedConnection): void {
    this.connections.delete(connection.id);
    connection.close();
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

interface Waiting {
  stream: string;
  event: MultiplexEvent;
  sent: () => void;
}

/**
 * One connection for many streams.
 *
 * 1. Of each stream at most one piece waits to be sent: if the reader accepts nothing, nothing more is read of the streams.
 * 2. When the connection is over, so are its streams.
 */
class MultiplexedConnection {
  readonly id = randomUUID();
  readonly user: string;
  private readonly streams = new Map<string, Reader>();
  private readonly wake = new AutoResetEvent();
  private waiting: Waiting[] = [];
  private isOver = false;

  constructor(user: string) {
    this.user = user;
  }

  has(stream: string): boolean {
    return this.streams.has(stream);
  }

  /** Sends a body under the name of a stream. False: the connection is over, or has a stream of that name. */
  carry(stream: string, body: ReadableStream<Uint8Array>): boolean {
    if (this.isOver || this.has(stream)) return false;
    const reader = body.getReader();
    this.streams.set(stream, reader);
    void this.send(stream, reader);
    return true;
  }

  /** Ends a stream, as its reader does who disconnects. */
  end(stream: string): void {
    void this.streams
      .get(stream)
      ?.cancel()
      .catch(() => {});
    this.streams.delete(stream);
    const dropped = this.waiting.filter((each) => each.stream === stream);
    this.waiting = this.waiting.filter((each) => each.stream !== stream);
    for (const { sent } of dropped) sent();
  }

  close(): void {
    this.isOver = true;
    for (const stream of this.streams.keys()) this.end(stream);
  }

  /** What is to be sent; each batch when the one before it was accepted. Ends with the signal. */
  async *events(signal: AbortSignal): AsyncGenerator<MultiplexEvent[]> {
    yield [{ event: 'opened', data: { connection: this.id } }];
    while (!signal.aborted) {
      await this.wake.wait(undefined, signal);
      const { waiting } = this;
      this.waiting = [];
      if (waiting.length > 0) yield waiting.map(({ event }) => event);
      for (const { sent } of waiting) sent();
    }
  }

  private async send(stream: string, reader: Reader): Promise<void> {
    const decoder = new TextDecoder();
    let complete = false;
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        const text = decoder.decode(next.value, { stream: true });
        await this.put(stream, { event: 'piece', data: { stream, text } });
      }
      complete = true;
    } catch {
      // The reader of the stream is told.
    }
    if (this.streams.get(stream) !== reader) return;
    await this.put(stream, { event: 'end', data: { stream, complete } });
    this.streams.delete(stream);
  }

  private put(stream: string, event: MultiplexEvent): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.streams.has(stream)) this.waiting.push({ stream, event, sent: resolve });
    else resolve();
    this.wake.set();
    return promise;
  }
}
