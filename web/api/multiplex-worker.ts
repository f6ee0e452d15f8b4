// A shared worker: the one connection that carries the streams of all windows of this browser.
import type { MultiplexEvent } from '../../domain/multiplex.ts';
import { readEventStream } from './read-event-stream.ts';
import { withToken } from './with-token.ts';

/** What a window asks for, with a port for its stream. It sends something on that port to end the stream. */
export interface StreamAsked {
  token: string | undefined;
  /** The name of a lock that the window holds until it is closed. */
  window: string;
}

/** What is told on a stream's port: first its name and the worker's lock, unless there is no connection; last how it ended. */
export type StreamTold = { name: string; worker: string } | { text: string } | { complete: boolean };

type MultiplexEvents = { [Event in MultiplexEvent as Event['event']]: Event['data'] };

interface Carried {
  port: MessagePort;
  /** Fires when the stream is over. */
  over: AbortController;
}

/** How long a connection stays open without a stream: a page that is loaded again needs it at once. */
const LINGER_MS = 5_000;

/** Held as long as this worker lives. */
const LOCK = `perdure worker ${crypto.randomUUID()}`;
const held = new Promise<void>((granted) => {
  void navigator.locks.request(LOCK, () => {
    granted();
    return new Promise<never>(() => {});
  });
});

/** By token: windows with different tokens may belong to different users. */
const connections = new Map<string | undefined, Connection>();

/** A connection, from its first stream until it is lost, or has had none for a while. */
class Connection {
  private readonly token: string | undefined;
  private readonly streams = new Map<string, Carried>();
  private readonly reading = new AbortController();
  /** Its name; undefined: it could not be opened. */
  private readonly opened = Promise.withResolvers<string | undefined>();
  /** Streams that the server is being told of. */
  private readonly releasing = new Set<string>();
  private last = 0;
  private lingering: ReturnType<typeof setTimeout> | undefined;

  constructor(token: string | undefined) {
    this.token = token;
    void this.read();
  }

  /** Carries another stream, until it is over, or its window ends it or is closed. */
  async carry(port: MessagePort, window: string): Promise<void> {
    clearTimeout(this.lingering);
    this.last += 1;
    const stream = String(this.last);
    const over = new AbortController();
    this.streams.set(stream, { port, over });
    port.addEventListener('message', () => this.leave(stream));
    port.start();
    const gone = { mode: 'shared', signal: over.signal } as const;
    navigator.locks.request(window, gone, () => this.leave(stream)).catch(() => {});
    await held;
    const connection = await this.opened.promise;
    if (connection !== undefined) tell(port, { name: `${connection}/${stream}`, worker: LOCK });
  }

  close(): void {
    this.reading.abort();
    if (connections.get(this.token) === this) connections.delete(this.token);
  }

  private async read(): Promise<void> {
    const request = (signal: AbortSignal) =>
      fetch('/api/multiplex', { headers: withToken(undefined, this.token), cache: 'no-store', signal });
    await readEventStream(request, this.reading, (name, data) => this.received(name, data)).catch(() => {});
    this.close();
    this.opened.resolve(undefined);
    for (const stream of this.streams.keys()) this.isOver(stream, { complete: false });
    clearTimeout(this.lingering);
  }

  private received(name: string | undefined, data: string): void {
    const read = <Name extends keyof MultiplexEvents>(_name: Name) => JSON.parse(data) as MultiplexEvents[Name];
    if (name === 'opened') this.opened.resolve(read(name).connection);
    else if (name === 'end') {
      const { stream, complete } = read(name);
      this.isOver(stream, { complete });
    } else if (name === 'piece') {
      const { stream, text } = read(name);
      const carried = this.streams.get(stream);
      if (carried) tell(carried.port, { text });
      // Its window has left before the server knew of it.
      else void this.release(stream);
    }
  }

  private leave(stream: string): void {
    this.isOver(stream);
    void this.release(stream);
  }

  private isOver(stream: string, end?: { complete: boolean }): void {
    const carried = this.streams.get(stream);
    if (carried === undefined) return;
    this.streams.delete(stream);
    if (end) tell(carried.port, end);
    carried.port.close();
    carried.over.abort();
    if (this.streams.size === 0) this.lingering = setTimeout(() => this.close(), LINGER_MS);
  }

  private async release(stream: string): Promise<void> {
    const connection = await this.opened.promise;
    if (connection === undefined) return;
    if (this.releasing.has(stream)) return;
    this.releasing.add(stream);
    const url = `/api/multiplex/${connection}/${stream}`;
    // If it fails, the stream's next piece is answered like this again.
    await fetch(url, { method: 'DELETE', headers: withToken(undefined, this.token) }).catch(() => {});
    this.releasing.delete(stream);
  }
}

function tell(port: MessagePort, told: StreamTold): void {
  port.postMessage(told);
}

function connectionOf(token: string | undefined): Connection {
  const known = connections.get(token) ?? new Connection(token);
  connections.set(token, known);
  return known;
}

addEventListener('connect', (event) => {
  const [windows] = (event as MessageEvent).ports;
  windows?.addEventListener('message', ({ data: { token, window }, ports: [port] }: MessageEvent<StreamAsked>) => {
    if (port) void connectionOf(token).carry(port, window);
  });
  windows?.start();
});
// Connections from before may be dead, and nothing says so for a long time.
addEventListener('online', () => {
  for (const connection of connections.values()) connection.close();
});
