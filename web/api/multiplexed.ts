import { MULTIPLEX_HEADER } from '../../domain/multiplex.ts';
import type { StreamAsked, StreamTold } from './multiplex-worker.ts';

/** A worker that says nothing for this long is given up. */
const SILENT_MS = 3_000;
/** After so many workers that said nothing, no other is tried. */
const MOST_SILENT = 2;

/**
 * A request whose response is a stream, over the connection that all windows of this browser share (see multiplex-worker.ts):
 * browsers have six HTTP/1.1 connections per server, and each window needs two streams. Where there is no such connection,
 * because the browser has no shared workers or the server refuses it, the response has a connection of its own.
 * @param send makes the request, with the token
 * @throws what `send` throws
 */
export async function fetchMultiplexed(
  send: (input: RequestInfo | URL, init: RequestInit) => Promise<Response>,
  token: string | undefined,
  input: RequestInfo | URL,
  init: RequestInit,
): Promise<Response> {
  const stream = await CarriedStream.open(token);
  if (stream === undefined) return send(input, init);
  try {
    const headers = new Headers(init.headers);
    headers.set(MULTIPLEX_HEADER, stream.name);
    const response = await send(input, { ...init, headers });
    if (response.headers.get(MULTIPLEX_HEADER) === stream.name) return stream.response(response, init.signal);
    stream.leave();
    return response;
  } catch (error) {
    stream.leave();
    throw error;
  }
}

/** A stream that the worker's connection carries. */
class CarriedStream {
  /** Its name for the server. */
  readonly name: string;
  private readonly port: MessagePort;
  private readonly body: ReadableStream<Uint8Array<ArrayBuffer>>;
  private readonly over = new AbortController();
  private controller!: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;

  /**
   * @param told the stream's name, and the lock that the worker holds
   * @param gone called if the worker dies
   */
  private constructor(port: MessagePort, told: { name: string; worker: string }, gone: () => void) {
    this.name = told.name;
    this.port = port;
    this.body = new ReadableStream({
      start: (controller) => void (this.controller = controller),
      cancel: () => this.leave(),
    });
    const encoder = new TextEncoder();
    port.addEventListener('message', ({ data }: MessageEvent<StreamTold>) => {
      if (this.over.signal.aborted) return;
      if ('text' in data) this.controller.enqueue(encoder.encode(data.text));
      else if ('complete' in data) this.end(data);
    });
    const held = { mode: 'shared', signal: this.over.signal } as const;
    const died = () => {
      gone();
      this.end({ complete: false });
    };
    navigator.locks.request(told.worker, held, died).catch(() => {});
  }

  /** A name for a stream; undefined: there is no connection for it. */
  static async open(token: string | undefined): Promise<CarriedStream | undefined> {
    const worker = theWorker();
    if (worker === undefined) return undefined;
    const window = await theLock();
    if (window === undefined) return undefined;
    const { port1: port, port2 } = new MessageChannel();
    const first = firstTold(port, worker);
    worker.port.postMessage({ token, window } satisfies StreamAsked, [port2]);
    const told = await first;
    if (told === undefined) giveUp(worker);
    else silent = 0;
    if (told !== undefined && 'name' in told) return new CarriedStream(port, told, () => forget(worker));
    // The connection may open yet, and would not be closed while this window lives.
    port.postMessage('leave');
    port.close();
    return undefined;
  }

  /** The response, with the stream as its body, which the signal aborts. */
  response({ headers }: Response, signal: AbortSignal | null | undefined): Response {
    const abort = () => {
      this.controller.error(signal?.reason);
      this.leave();
    };
    if (signal?.aborted === true) abort();
    signal?.addEventListener('abort', abort, { once: true, signal: this.over.signal });
    return new Response(this.body, { headers });
  }

  /** Reads no more of it. */
  leave(): void {
    if (this.over.signal.aborted) return;
    this.over.abort();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port has no other origins
    this.port.postMessage('leave');
  }

  private end({ complete }: { complete: boolean }): void {
    this.over.abort();
    if (complete) this.controller.close();
    else this.controller.error(new TypeError('the connection is lost'));
    this.port.close();
  }
}

let known: SharedWorker | undefined;
/** Workers that said nothing, one after the other. */
let silent = 0;

/** Undefined: each stream has a connection of its own. */
function theWorker(): SharedWorker | undefined {
  const isPossible = 'SharedWorker' in globalThis && 'locks' in navigator;
  if (!isPossible || silent >= MOST_SILENT || hasManyStreams()) return undefined;
  known ??= newWorker();
  return known;
}

/** Undefined: the browser refuses it. */
function newWorker(): SharedWorker | undefined {
  try {
    // In one expression: by it the build finds the worker's file.
    const worker = new SharedWorker(new URL('./multiplex-worker.ts', import.meta.url), {
      type: 'module',
      name: 'perdure',
    });
    worker.addEventListener('error', () => (silent = MOST_SILENT));
    worker.port.start();
    return worker;
  } catch {
    silent = MOST_SILENT;
    return undefined;
  }
}

/** Several streams may have waited for it. */
function giveUp(worker: SharedWorker): void {
  if (known === worker) silent += 1;
  forget(worker);
}

function forget(worker: SharedWorker): void {
  if (known === worker) known = undefined;
}

/** HTTP/2 and 3 have many streams on one connection. */
function hasManyStreams(): boolean {
  const [navigation] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return /^h[23]/.test(navigation?.nextHopProtocol ?? '');
}

/** What the worker says first about a stream; undefined: nothing. */
function firstTold(port: MessagePort, worker: SharedWorker): Promise<StreamTold | undefined> {
  const { promise, resolve } = Promise.withResolvers<StreamTold | undefined>();
  const nothing = () => resolve(undefined);
  const timer = setTimeout(nothing, SILENT_MS);
  worker.addEventListener('error', nothing);
  port.addEventListener('message', ({ data }: MessageEvent<StreamTold>) => resolve(data), { once: true });
  port.start();
  return promise.finally(() => {
    clearTimeout(timer);
    worker.removeEventListener('error', nothing);
  });
}

let lock: Promise<string | undefined> | undefined;

/**
 * The name of a lock that this window holds until it is closed, so that the worker knows when its streams have no reader.
 * Undefined: the browser refuses it.
 */
function theLock(): Promise<string | undefined> {
  lock ??= new Promise((resolve) => {
    const name = `perdure window ${crypto.randomUUID()}`;
    const held = navigator.locks.request(name, () => {
      resolve(name);
      return new Promise<never>(() => {});
    });
    held.catch(() => resolve(undefined));
  });
  return lock;
}
