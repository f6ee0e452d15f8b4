import type { Context, Hono } from 'hono';
import type { PerdureClient } from '../client/client.ts';
import type { Logger } from '../config/log.ts';
import type { HostMetrics } from './metrics.ts';
import type { Previews } from './previews.ts';
import type { Readers } from './readers.ts';

/** An authenticated caller. */
export interface Caller {
  user: string;
  /** A Set-Cookie header that identifies the caller in later requests. */
  setCookie?: string;
  /** When the caller's token expires, in epoch milliseconds: the caller's streams end then. Unset: never. */
  expiresAt?: number;
}

/** Authenticates requests. */
export interface Identify {
  /** @throws {PerdureError} `Unauthorized`, `Forbidden` */
  (request: Request): Promise<Caller>;
  /** Checks every request, including those to routes without authentication. @throws {PerdureError} `Forbidden` */
  guard?: (request: Request) => void;
}

/** Serves paths outside /api; undefined means not found. */
export type Page = (request: Request) => Response | undefined | Promise<Response | undefined>;

/** The dependencies and limits of a host. */
export interface HostParts {
  client: PerdureClient;
  identify: Identify;
  log: Logger;
  metrics: HostMetrics;
  maxBodyBytes: number;
  /** Maximum size of a POST /api/chat body in bytes; only its last message is kept. Unset: 32 MiB. */
  maxTranscriptBytes?: number | undefined;
  /** Maximum number of open streams per user at this host; unset: 200. */
  maxReaders?: number | undefined;
  page?: Page | undefined;
  /** Unset: workspaces are not served. */
  previews?: Previews | undefined;
}

/** What route handlers use. */
export interface RouteParts extends HostParts {
  readers: Readers;
  /** Fires when the host stops; all streams are aborted then. */
  closing: AbortSignal;
}

/** Values attached to a request. */
export interface HostEnv {
  Variables: {
    user: string;
    expiresAt: number | undefined;
    /** The route's command: the label of the refusal metric. */
    command: string;
  };
}

export type App = Hono<HostEnv>;
export type RequestContext = Context<HostEnv>;
