// A client of the hosts: calls any of them, and retries with the same id until the response is definite.
import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessageChunk } from 'ai';
import { QUEUE_PAUSED } from '../../domain/rows-to-chunks.ts';
import { eventsOf } from '../test-kit/host.ts';
import type { Random } from '../test-kit/random.ts';

const TIMEOUT_MS = 9_000;
/** A stream without any bytes for this long is dropped; hosts send a keep-alive every 15 s. */
const SILENCE_MS = 20_000;

export interface Answered {
  status: number;
  body: Record<string, unknown>;
  /** How often it was sent. */
  tries: number;
}

/** One connection of one reader and the chunks that it received. */
export interface Reading {
  session: string;
  chunks: UIMessageChunk[];
  /** When each chunk arrived, of `performance.now()`. */
  at: number[];
  /** It was told that there is no more to come. */
  whole: boolean;
}

/** A connection, and the promise that a frozen reader waits for. */
interface OpenConnection {
  controller: AbortController;
  frozen: Promise<unknown>;
}

/** All that readers received, and their open connections. */
export class Readings {
  readonly all: Reading[] = [];
  private readonly open = new Set<OpenConnection>();

  /** Breaks about half of the open connections. */
  cut(random: Random): number {
    const chosen = [...this.open].filter(() => random.chance(0.5));
    for (const { controller } of chosen) controller.abort(new Error('cut'));
    return chosen.length;
  }

  /** About half of the readers stop reading for `ms`. */
  freeze(random: Random, ms: number): number {
    const chosen = [...this.open].filter(() => random.chance(0.5));
    for (const one of chosen) one.frozen = delay(ms);
    return chosen.length;
  }

  /** Reads the stream of a request to its end or until it breaks. Returns the HTTP status. */
  async read(
    session: string,
    request: (signal: AbortSignal) => Promise<Response>,
  ): Promise<{ status: number; reading?: Reading }> {
    const controller = new AbortController();
    const connection: OpenConnection = { controller, frozen: Promise.resolve() };
    this.open.add(connection);
    let silence = setTimeout(() => controller.abort(), SILENCE_MS);
    try {
      const response = await request(controller.signal);
      if (response.status !== 200) {
        await response.body?.cancel();
        return { status: response.status };
      }
      const reading: Reading = { session, chunks: [], at: [], whole: false };
      this.all.push(reading);
      try {
        for await (const { data } of eventsOf(response)) {
          clearTimeout(silence);
          silence = setTimeout(() => controller.abort(), SILENCE_MS);
          reading.chunks.push(data as UIMessageChunk);
          reading.at.push(performance.now());
          await connection.frozen;
        }
      } catch {
        // The connection broke; the chunks before that are kept.
      }
      reading.whole = isWhole(reading.chunks);
      return { status: 200, reading };
    } finally {
      clearTimeout(silence);
      this.open.delete(connection);
    }
  }
}

/**
 * Whether there is no more to come: a stream also ends with `finish` when a call asks, and goes on after the answer; or while
 * the queue is paused.
 */
function isWhole(chunks: readonly UIMessageChunk[]): boolean {
  const last = chunks.at(-1)?.type;
  const asking = new Set<string>();
  for (const chunk of chunks) {
    if (chunk.type === 'tool-approval-request') asking.add(chunk.toolCallId);
    else if ('toolCallId' in chunk && chunk.type.startsWith('tool-output-')) asking.delete(chunk.toolCallId);
  }
  const isPaused = chunks.some((chunk) => chunk.type === 'error' && chunk.errorText === QUEUE_PAUSED);
  return last === 'abort' || (last === 'finish' && asking.size === 0 && !isPaused);
}

/** Calls as one user. */
export class Api {
  readonly user: string;
  private readonly hosts: readonly string[];
  private readonly random: Random;
  /** Responses that must not occur. */
  readonly odd: string[] = [];

  constructor(user: string, hosts: readonly string[], random: Random) {
    this.user = user;
    this.hosts = hosts;
    this.random = random;
  }

  /** One request to some host. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { 'x-perdure-user': this.user, 'content-type': 'application/json', ...(init.headers as object) };
    return fetch(`${this.random.pick(this.hosts)}${path}`, { ...init, headers });
  }

  /**
   * Retries until the response is definite: neither a broken connection nor 503.
   * @throws when the signal is aborted
   */
  async surely(method: string, path: string, body: unknown, signal: AbortSignal, key?: string): Promise<Answered> {
    for (let tries = 1; ; tries += 1) {
      signal.throwIfAborted();
      try {
        const response = await this.fetch(path, {
          method,
          signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
          ...(body !== undefined && { body: JSON.stringify(body) }),
          ...(key !== undefined && { headers: { 'idempotency-key': key } }),
        });
        const text = await response.text();
        if (response.status < 500)
          return { status: response.status, body: JSON.parse(text || '{}') as Answered['body'], tries };
        if (response.status !== 503) this.odd.push(`${method} ${path}: ${response.status} ${text}`);
      } catch {
        // No response: the outcome is unknown, so it is sent again.
      }
      await delay(this.random.between(50, 400));
    }
  }
}
