import type { Handler } from 'hono';
import { z } from 'zod';
import { type ErrorCode, PerdureError } from '../domain/errors.ts';
import { parseInput } from '../wire/input.ts';
import { idempotencyKey } from '../wire/requests.ts';
import { readBody } from './body.ts';
import { problemOf, problemResponse } from './problem.ts';
import type { App, HostEnv, RequestContext } from './context.ts';

export type Method = 'get' | 'post' | 'delete';

/** One answer that a route gives when all is well. */
export interface Answer {
  description: string;
  /** Of a body in JSON. */
  schema?: z.ZodType;
  /** Of any other body. */
  mediaType?: string;
  headers?: Record<string, z.ZodType>;
}

type ParamName<Path> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Plain<Name> | ParamName<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Plain<Name>
    : never;
/** A parameter's name without its pattern: `file{.*}` */
type Plain<Name> = Name extends `${infer Before}{${string}` ? Before : Name;

/**
 * What a route is, for its callers and for the code alike: requests are judged by the schemas that describe them. Who
 * calls, and what every route may answer, is described in openapi.ts.
 */
export interface RouteDescription<Path extends string, Query extends z.ZodObject, Body> {
  /** Its name in generated clients. */
  operationId: string;
  tag: Tag;
  summary: string;
  description?: string;
  /** Under which a refusal is counted. */
  command?: string;
  /** The parameters in the path. What is not there is an error of its own, so these are not judged before. */
  params: Record<ParamName<Path>, z.ZodType>;
  query?: Query;
  body?: z.ZodType<Body>;
  /** Reads the body where it must not be kept whole; without it all of it is read and parsed by `body`. */
  readBody?: (request: Request) => Promise<Body>;
  /** The route takes an Idempotency-Key. */
  idempotent?: boolean;
  answers: Record<number, Answer>;
  /** The errors of its own. */
  errors?: readonly ErrorCode[];
  /** Anybody may call it. */
  open?: boolean;
}

/** Whose chapter of the description a route is in. */
export type Tag = 'Chat' | 'Sessions' | 'Messages' | 'Commands' | 'Operation';

/** What a request brought, as the schemas have it. */
export interface Brought<Path extends string, Query extends z.ZodObject, Body> {
  user: string;
  params: Record<ParamName<Path>, string>;
  query: z.output<Query>;
  body: Body;
  idempotencyKey: string | undefined;
}

/** A route that was added. */
export interface DescribedRoute {
  method: Method;
  /** As Hono writes it: /api/sessions/:id */
  path: string;
  description: RouteDescription<string, z.ZodObject, unknown>;
}

type RouteHandler<Path extends string, Query extends z.ZodObject, Body> = (
  c: RequestContext,
  brought: Brought<Path, Query, Body>,
) => Response | Promise<Response>;

type AddRoute = <Path extends string, Query extends z.ZodObject, Body>(
  path: Path,
  description: RouteDescription<Path, Query, Body>,
  handler: RouteHandler<Path, Query, Body>,
) => void;

/** The routes of a host. Each is added with its description, so that none is without. */
export class Api {
  readonly routes: DescribedRoute[] = [];
  readonly get: AddRoute = (path, description, handler) => this.add('get', path, description, handler);
  readonly post: AddRoute = (path, description, handler) => this.add('post', path, description, handler);
  readonly delete: AddRoute = (path, description, handler) => this.add('delete', path, description, handler);
  private readonly app: App;
  private readonly maxBodyBytes: number;

  constructor(app: App, maxBodyBytes: number) {
    this.app = app;
    this.maxBodyBytes = maxBodyBytes;
  }

  /** Other methods than the described ones of a path are refused with those that there are. Call it last. */
  refuseOtherMethods(): void {
    for (const [path, routes] of Map.groupBy(this.routes, (route) => route.path)) {
      const methods = routes.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
      const allow = methods.join(', ');
      this.app.all(path, (c) => {
        const error = new PerdureError('MethodNotAllowed', `${c.req.path} takes ${allow}, not ${c.req.method}`);
        return problemResponse(problemOf(error), { allow });
      });
    }
  }

  private add<Path extends string, Query extends z.ZodObject, Body>(
    method: Method,
    path: Path,
    description: RouteDescription<Path, Query, Body>,
    handler: RouteHandler<Path, Query, Body>,
  ): void {
    const { command, query, body, idempotent } = description;
    const limit = { bytes: this.maxBodyBytes, setting: 'PERDURE_MAX_BODY' };
    const read = description.readBody ?? (body && ((request: Request) => readBody(request, body, limit)));
    this.routes.push({ method, path, description });
    const handle: Handler<HostEnv> = async (c) => {
      if (command !== undefined) c.set('command', command);
      return handler(c, {
        user: c.get('user'),
        params: c.req.param() as Record<ParamName<Path>, string>,
        query: parseInput(query ?? z.object(), c.req.query()) as z.output<Query>,
        body: (await read?.(c.req.raw)) as Body,
        idempotencyKey: idempotent === true ? keyOf(c) : undefined,
      });
    };
    this.app[method](path, handle);
  }
}

/** A path as OpenAPI writes it: /api/sessions/{id} */
export function templateOf(path: string): string {
  return path.replaceAll(/:(\w+)(?:\{[^}]*\})?/g, '{$1}');
}

/** An answer in JSON. */
export function json(schema: z.ZodType, description: string, headers?: Record<string, z.ZodType>): Answer {
  return { schema, description, ...(headers && { headers }) };
}

/** A stream of server-sent events; OpenAPI 3.1 describes no single ones, so the description says what they are. */
export function events(description: string, headers?: Record<string, z.ZodType>): Answer {
  return { mediaType: 'text/event-stream', description, ...(headers && { headers }) };
}

function keyOf(c: RequestContext): string | undefined {
  const key = c.req.header('idempotency-key');
  return key === undefined ? undefined : parseInput(idempotencyKey, key, ['Idempotency-Key']);
}
