import type { Handler } from 'hono';
import { z } from 'zod';
import { type ErrorCode, PerdureError } from '../../domain/errors.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { idempotencyKey, sessionRef } from '../../wire/requests.ts';
import type { App, HostEnv, RequestContext } from '../context.ts';
import { problemOfError, problemResponse } from '../http/problem.ts';
import { readBody } from '../http/read-body.ts';

export type Method = 'get' | 'post' | 'put' | 'delete';

/** A successful response of a route. */
export interface RouteResponse {
  description: string;
  /** Schema of a JSON body. */
  schema?: z.ZodType;
  /** Media type of any other body. */
  mediaType?: string;
  headers?: Record<string, z.ZodType>;
}

type ParamName<Path> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Plain<Name> | ParamName<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Plain<Name>
    : never;
/** A parameter's name without its pattern: `file` of `file{.*}` */
type Plain<Name> = Name extends `${infer Before}{${string}` ? Before : Name;

/**
 * A route's description: the source of both validation and OpenAPI. open-api-document.ts adds what all routes share
 * (authentication, common errors).
 */
export interface RouteDescription<Path extends string, Query extends z.ZodObject, Body> {
  /** The operation's name in generated clients. */
  operationId: string;
  tag: Tag;
  summary: string;
  description?: string;
  /** The label under which refusals are counted. */
  command?: string;
  /** Path parameters. They are not validated: an unknown id gets SessionNotFound, not BadRequest. */
  params: Record<ParamName<Path>, z.ZodType>;
  /** Unset: no query parameters; open routes ignore them, because probes and previewed pages may send any. */
  query?: Query;
  body?: z.ZodType<Body>;
  /** Reads a body that is too large to buffer. Unset: the whole body is read and parsed by `body`. */
  readBody?: (request: Request) => Promise<Body>;
  /** Schemas, by media type, of a body that the handler reads itself from the request. */
  rawBody?: Readonly<Record<string, z.ZodType>>;
  /** The route accepts an Idempotency-Key header: the same key with other arguments is `KeyReused`. */
  idempotent?: boolean;
  responses: Record<number, RouteResponse>;
  /** Errors that only this route has. */
  errors?: readonly ErrorCode[];
  /** True: no authentication. */
  open?: boolean;
}

/** The OpenAPI tag that a route is listed under. */
export type Tag = 'Chat' | 'Sessions' | 'Messages' | 'Commands' | 'Initiatives' | 'Console' | 'Operation';

/** A request's input, parsed by the route's schemas. */
export interface RouteInput<Path extends string, Query extends z.ZodObject, Body> {
  user: string;
  params: Record<ParamName<Path>, string>;
  query: z.output<Query>;
  body: Body;
  idempotencyKey: string | undefined;
}

/** A route that was added. */
export interface DescribedRoute {
  method: Method;
  /** In Hono's syntax: /api/sessions/:id */
  path: string;
  description: RouteDescription<string, z.ZodObject, unknown>;
}

type RouteHandler<Path extends string, Query extends z.ZodObject, Body> = (
  c: RequestContext,
  input: RouteInput<Path, Query, Body>,
) => Response | Promise<Response>;

type AddRoute = <Path extends string, Query extends z.ZodObject, Body>(
  path: Path,
  description: RouteDescription<Path, Query, Body>,
  handler: RouteHandler<Path, Query, Body>,
) => void;

/** The routes of a host, each with its description. */
export class Api {
  readonly routes: DescribedRoute[] = [];
  readonly get: AddRoute = (path, description, handler) => this.add('get', path, description, handler);
  readonly post: AddRoute = (path, description, handler) => this.add('post', path, description, handler);
  readonly put: AddRoute = (path, description, handler) => this.add('put', path, description, handler);
  readonly delete: AddRoute = (path, description, handler) => this.add('delete', path, description, handler);
  private readonly app: App;
  private readonly maxBodyBytes: number;

  constructor(app: App, maxBodyBytes: number) {
    this.app = app;
    this.maxBodyBytes = maxBodyBytes;
  }

  /** Adds responses 405 with `Allow` for all other methods of the described paths. Call it after adding all routes. */
  refuseOtherMethods(): void {
    for (const [path, routes] of Map.groupBy(this.routes, (route) => route.path)) {
      const methods = routes.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
      const allow = methods.join(', ');
      this.app.all(path, (c) => {
        const error = new PerdureError('MethodNotAllowed', `${c.req.path} allows ${allow}, not ${c.req.method}`);
        return problemResponse(problemOfError(error), { allow });
      });
    }
  }

  private add<Path extends string, Query extends z.ZodObject, Body>(
    method: Method,
    path: Path,
    description: RouteDescription<Path, Query, Body>,
    handler: RouteHandler<Path, Query, Body>,
  ): void {
    const { command, body, idempotent = false, open } = description;
    const query = description.query ?? (open === true ? z.object() : z.strictObject({}));
    const limit = { bytes: this.maxBodyBytes, setting: 'PERDURE_MAX_BODY' };
    const read = description.readBody ?? (body && ((request: Request) => readBody(request, body, limit)));
    this.routes.push({ method, path, description });
    const handle: Handler<HostEnv> = async (c) => {
      if (command !== undefined) c.set('command', command);
      return handler(c, {
        user: c.get('user'),
        params: c.req.param() as Record<ParamName<Path>, string>,
        query: parseInput(query, queryOf(c)) as z.output<Query>,
        body: (await read?.(c.req.raw)) as Body,
        idempotencyKey: keyOf(c, idempotent),
      });
    };
    this.app[method](path, handle);
  }
}

/** What most routes of a session have in common. */
export const ofSession = { tag: 'Sessions', params: { id: sessionRef }, errors: ['SessionNotFound'] } as const;

/** A path in OpenAPI's syntax: /api/sessions/{id} */
export function templateOf(path: string): string {
  return path.replaceAll(/:(\w+)(?:\{[^}]*\})?/g, '{$1}');
}

/** A JSON response. */
export function jsonResponse(
  schema: z.ZodType,
  description: string,
  headers?: Record<string, z.ZodType>,
): RouteResponse {
  return { schema, description, ...(headers && { headers }) };
}

export const EVENT_STREAM = 'text/event-stream';

/** A stream of server-sent events. OpenAPI 3.1 cannot describe single events, so `description` does. */
export function events(description: string, headers?: Record<string, z.ZodType>): RouteResponse {
  return { mediaType: EVENT_STREAM, description, ...(headers && { headers }) };
}

/** Query parameters by name. A repeated one is an array, which no schema accepts. */
function queryOf(c: RequestContext): Record<string, unknown> {
  const given = Object.entries(c.req.queries());
  return Object.fromEntries(given.map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

/** @throws {InvalidInputError} for a key where it would have no effect: the caller would rely on it */
function keyOf(c: RequestContext, isIdempotent: boolean): string | undefined {
  const key = c.req.header('idempotency-key');
  if (key === undefined || c.req.method === 'GET' || c.req.method === 'HEAD') return undefined;
  if (!isIdempotent) throw new InvalidInputError([{ field: 'Idempotency-Key', expected: 'none on this route' }]);
  return parseInput(idempotencyKey, key, ['Idempotency-Key']);
}
