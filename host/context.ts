import type { Context, Hono } from 'hono';
import type { PerdureClient } from '../client/client.ts';
import type { Logger } from '../config/log.ts';
import type { Attributes } from '../domain/attributes.ts';
import type { Previews } from './files/previews.ts';
import type { HostMetrics } from './host-metrics.ts';
import type { Multiplexer } from './streams/multiplexer.ts';
import type { Readers } from './streams/readers.ts';

/** An authenticated caller. */
export interface Caller {
  user: string;
  /** Stored with a message for prompts and tools of its turn, such as a tenant: at most 4 KiB of JSON, and no token. */
  attributes?: Attributes | undefined;
  /** A Set-Cookie header that identifies the caller in later requests. */
  setCookie?: string;
  /** The caller may change `app:` state. */
  admin?: boolean;
  /** The caller may read the sessions of all users, in the console. An `admin` may not unless this says so, too. */
  readsAll?: boolean;
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
export type PageHandler = (request: Request) => Response | undefined | Promise<Response | undefined>;

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
  /** Maximum number of requests in progress at this host, without open streams; unset: 2,000. */
  maxRequests?: number | undefined;
  /** Origins of other pages that may use the API, such as `http://localhost:5173`; unset: none. */
  allowedOrigins?: readonly string[] | undefined;
  page?: PageHandler | undefined;
  /** URL below which Temporal's UI shows workflows by their ids, for links of the console; unset: no links. */
  temporalWorkflows?: string | undefined;
  /** Path that the host is mounted at in another server, such as `/perdure`; unset: the root. */
  basePath?: string | undefined;
  /** Unset: workspaces are not served. */
  previews?: Previews | undefined;
}

/** What route handlers use. */
export interface RouteParts extends HostParts {
  /** Before every path that a browser is given: empty, or with a slash at its beginning and none at its end. */
  basePath: string;
  readers: Readers;
  multiplexer: Multiplexer;
  /** Fires when the host stops; all streams are aborted then. */
  closing: AbortSignal;
}

/** Values attached to a request. */
export interface HostEnv {
  Variables: {
    user: string;
    admin: boolean;
    readsAll: boolean;
    attributes: Attributes | undefined;
    expiresAt: number | undefined;
    /** The route's command: the label of the refusal metric. */
    command: string;
  };
}

export type App = Hono<HostEnv>;
export type RequestContext = Context<HostEnv>;
