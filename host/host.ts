import { Hono, type MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import { PerdureError } from '../domain/errors.ts';
import { Api } from './api.ts';
import type { App, HostEnv, HostParts, RequestContext, RouteParts } from './context.ts';
import { challengeOf, loggedProblem, problemOf, problemResponse } from './problem.ts';
import { Readers } from './readers.ts';
import { chatRoutes } from './routes/chat.ts';
import { commandRoutes } from './routes/commands.ts';
import { fileRoutes, previewRoutes, previewSites } from './routes/files.ts';
import { docsRoutes } from './routes/docs.ts';
import { healthRoutes } from './routes/health.ts';
import { logRoutes } from './routes/log.ts';
import { messageRoutes } from './routes/messages.ts';
import { openApiRoutes } from './routes/openapi.ts';
import { pageRoutes } from './routes/page.ts';
import { rendezvousRoutes } from './routes/rendezvous.ts';
import { erasureRoutes } from './routes/erasure.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { statusRoutes } from './routes/status.ts';
import { apiHeaders } from './security-headers.ts';

/** The HTTP API as a `fetch` handler for any server. The caller closes what it passed in. */
export interface Host {
  fetch: (request: Request) => Promise<Response>;
  /** Aborts all open streams; their readers reconnect to another host or to this one. */
  close: () => void;
  /** Every route except the page's: method in capitals, path in Hono's syntax. */
  routes: readonly { method: string; path: string }[];
}

export function createHost(hostParts: HostParts): Host {
  const closing = new AbortController();
  const readers = new Readers(hostParts.metrics, hostParts.maxReaders);
  const parts: RouteParts = { ...hostParts, readers, closing: closing.signal };
  const app: App = new Hono<HostEnv>();
  app.use(measured(parts));
  app.use(withoutBody);
  app.use(withDefaultHeaders);
  app.use(previewSites(parts));
  app.use(guarded(parts));
  const api = new Api(app, parts.maxBodyBytes);
  openApiRoutes(api);
  docsRoutes(api);
  previewRoutes(api, parts);
  healthRoutes(api, parts);
  app.use('/api/*', identified(parts));
  chatRoutes(api, parts);
  sessionRoutes(api, parts);
  erasureRoutes(api, parts);
  messageRoutes(api, parts);
  commandRoutes(api, parts);
  statusRoutes(api, parts);
  rendezvousRoutes(api, parts);
  fileRoutes(api, parts);
  logRoutes(api, parts);
  api.refuseOtherMethods();
  app.all('/api/*', (c) => {
    throw new PerdureError('NotFound', `there is no ${c.req.method} ${c.req.path}`);
  });
  const routes = app.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => ({ method, path }));
  pageRoutes(app, parts);
  app.notFound((c) => problemResponse(problemOf(new PerdureError('NotFound', `there is no ${c.req.path}`))));
  app.onError((error, c) => answerError(error, c, parts));
  return { fetch: async (request) => app.fetch(request), close: () => closing.abort(), routes };
}

/** Adds default headers to responses without a content security policy of their own (pages and previews have one). */
const withDefaultHeaders: MiddlewareHandler<HostEnv> = async (c, next) => {
  await next();
  if (c.res.headers.has('content-security-policy')) return;
  await apiHeaders(c, async () => {});
  if (!c.res.headers.has('cache-control')) c.res.headers.set('cache-control', 'no-store');
};

/** Hono handles HEAD as GET; cancel the body, or a stream would stay open. */
const withoutBody: MiddlewareHandler<HostEnv> = async (c, next) => {
  await next();
  if (c.req.raw.method === 'HEAD') await c.res.body?.cancel();
};

function guarded({ identify }: HostParts): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    identify.guard?.(c.req.raw);
    await next();
  };
}

/** Authenticates every request under /api. */
function identified({ identify }: HostParts): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    const { user, setCookie, expiresAt } = await identify(c.req.raw);
    c.set('user', user);
    c.set('expiresAt', expiresAt);
    await next();
    if (setCookie !== undefined) c.res.headers.append('set-cookie', setCookie);
  };
}

function measured({ metrics }: HostParts): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    const from = performance.now();
    await next();
    // The route's pattern, not the path: labels must not grow with the number of sessions.
    metrics.request(c.req.method, routePath(c), c.res.status, (performance.now() - from) / 1000);
  };
}

function answerError(error: unknown, c: RequestContext, { metrics, log }: HostParts): Response {
  const session = c.req.param('id');
  const problem = loggedProblem(error, log, { method: c.req.method, route: routePath(c), ...(session && { session }) });
  const command = c.get('command') as string | undefined;
  if (command !== undefined) metrics.refused(command, problem.code);
  return problemResponse(problem, challengeOf(error));
}
