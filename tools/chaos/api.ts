// How a user's program calls the hosts: any of them, again with the same id for as long as it gets no clear answer.
import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessageChunk } from 'ai';
import { eventsOf } from '../test-kit/host.ts';
import type { Random } from './random.ts';

const TIMEOUT_MS = 9_000;
/** A stream that says nothing for so long is given up; hosts send a sign of life every 15 s. */
const SILENCE_MS = 20_000;

export interface Answered {
  status: number;
  body: Record<string, unknown>;
  /** How often it was sent. */
  tries: number;
}

/** One connection of one reader, and all that came over it. */
export interface Reading {
  session: string;
  chunks: UIMessageChunk[];
  /** When each chunk came. */
  at: number[];
  /** It was told that there is no more to come. */
  whole: boolean;
}

/** A connection, and until when nothing is taken from it. */
interface OpenConnection {
  controller: AbortController;
  frozen: Promise<unknown>;
}

/** All that readers got, and their open connections. */
export class Readings {
  readonly all: Reading[] = [];
  private readonly open = new Set<OpenConnection>();

  /** Breaks about half of the open connections. */
  cut(random: Random): number {
    const chosen = [...this.open].filter(() => random.chance(0.5));
    for (const { controller } of chosen) controller.abort(new Error('cut'));
    return chosen.length;
  }

  /** About half of the readers take nothing for so long. */
  freeze(random: Random, ms: number): number {
    const chosen = [...this.open].filter(() => random.chance(0.5));
    for (const one of chosen) one.frozen = delay(ms);
    return chosen.length;
  }

  /** Reads what a request streams, to its end or until it breaks. Answers the status; a stream's is 200. */
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
        // The connection broke; what came before it counts.
      }
      const last = reading.chunks.at(-1)?.type;
      reading.whole = last === 'finish' || last === 'abort';
      return { status: 200, reading };
    } finally {
      clearTimeout(silence);
      this.open.delete(connection);
    }
  }
}

/** Calls as one user. */
export class Api {
  readonly user: string;
  private readonly hosts: readonly string[];
  private readonly random: Random;
  /** Answers that nobody should get. */
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
   * Sends until the answer is clear: not a broken connection, not 503.
   * @throws when the signal says that it is too late
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
        // No answer: whether it was carried out is unknown, and so it is sent again.
      }
      await delay(this.random.between(50, 400));
    }
  }
}
