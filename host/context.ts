import type { Context, Hono } from 'hono';
import type { PerdureClient } from '../client/client.ts';
import type { Logger } from '../config/log.ts';
import type { HostMetrics } from './metrics.ts';
import type { Previews } from './previews.ts';
import type { Readers } from './readers.ts';

/** Who is calling. */
export interface Caller {
  user: string;
  /** A Set-Cookie header that lets the caller be known next time. */
  setCookie?: string;
  /** When the caller's token expires, in epoch milliseconds: the caller's streams end then. Unset: never. */
  expiresAt?: number;
}

/** Finds out who is calling. */
export interface Identify {
  /** @throws {PerdureError} `Unauthorized`, `Forbidden` */
  (request: Request): Promise<Caller>;
  /** Checks every request, also to routes without authentication. @throws {PerdureError} `Forbidden` */
  guard?: (request: Request) => void;
}

/** Answers paths outside /api; undefined: there is no such page. */
export type Page = (request: Request) => Response | undefined | Promise<Response | undefined>;

/** What a host is made of. */
export interface HostParts {
  client: PerdureClient;
  identify: Identify;
  log: Logger;
  metrics: HostMetrics;
  maxBodyBytes: number;
  /** Longest body of POST /api/chat in bytes, of which only the last message is kept; unset: 32 MiB. */
  maxTranscriptBytes?: number | undefined;
  /** Most streams that one user may have open here; unset: 200. */
  maxReaders?: number | undefined;
  page?: Page | undefined;
  /** Unset: workspaces are not served. */
  previews?: Previews | undefined;
}

/** What the routes get. */
export interface RouteParts extends HostParts {
  readers: Readers;
  /** Fires when the host stops: streams are cut off then. */
  closing: AbortSignal;
}

/** What a request carries along. */
export interface HostEnv {
  Variables: {
    user: string;
    expiresAt: number | undefined;
    /** The command of the route, under which a refusal is counted. */
    command: string;
  };
}

export type App = Hono<HostEnv>;
export type RequestContext = Context<HostEnv>;
