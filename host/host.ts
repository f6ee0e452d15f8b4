import { Hono, type MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import { LeftTheLineError } from '../client/wait/limiter.ts';
import { PerdureError } from '../domain/errors.ts';
import { Api } from './api/api.ts';
import { callerOf, guard } from './auth/caller.ts';
import { checkParts } from './check-parts.ts';
import type { App, HostEnv, HostParts, RequestContext, RouteParts } from './context.ts';
import { allowOrigins } from './http/allow-origins.ts';
import { normalBasePath, pathBelow } from './http/base-path.ts';
import { apiHeaders } from './http/headers.ts';
import { limitRequests } from './http/limit-requests.ts';
import { challengeOf, loggedProblem, problemOfError, problemResponse } from './http/problem.ts';
import { attachmentRoutes } from './routes/attachments.ts';
import { chatRoutes } from './routes/chat.ts';
import { commandRoutes } from './routes/commands.ts';
import { consoleRoutes } from './routes/console.ts';
import { docsRoutes } from './routes/docs.ts';
import { erasureRoutes } from './routes/erasure.ts';
import { fileRoutes, previewRoutes, previewSites } from './routes/files.ts';
import { healthRoutes } from './routes/health.ts';
import { initiativeCommandRoutes } from './routes/initiative-commands.ts';
import { initiativeRoutes } from './routes/initiatives.ts';
import { logRoutes } from './routes/log.ts';
import { mcpRoutes } from './routes/mcp.ts';
import { messageRoutes } from './routes/messages.ts';
import { modelRoutes } from './routes/models.ts';
import { multiplexing, multiplexRoutes } from './routes/multiplex.ts';
import { openApiRoutes } from './routes/open-api.ts';
import { pageRoutes } from './routes/page.ts';
import { permissionRoutes } from './routes/permissions.ts';
import { promptRoutes } from './routes/prompts.ts';
import { rendezvousRoutes } from './routes/rendezvous.ts';
import { searchRoutes } from './routes/search.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { stateRoutes } from './routes/state.ts';
import { statusRoutes } from './routes/status.ts';
import { todoRoutes } from './routes/todos.ts';
import { transferRoutes } from './routes/transfer.ts';
import { Multiplexer } from './streams/multiplexer.ts';
import { Readers } from './streams/readers.ts';

/** The HTTP API as a `fetch` handler for any server. The caller closes what it passed in. */
export interface Host {
  fetch: (request: Request) => Promise<Response>;
  /** Aborts all open streams; their readers reconnect to another host or to this one. */
  close: () => void;
  /** Every route except the page's: method in capitals, path below the base path in Hono's syntax. */
  routes: readonly { method: string; path: string }[];
}

/** What pages of other origins may use, if they are allowed to. */
const OPEN_TO_PAGES = ['/api/*', '/openapi.json'];

/**
 * Creates a host. It connects to nothing.
 * @throws {TypeError} naming a part that is missing, invalid or without effect
 */
export function createHost(hostParts: HostParts): Host {
  const basePath = normalBasePath(hostParts.basePath);
  checkParts(hostParts, basePath);
  const closing = new AbortController();
  const readers = new Readers(hostParts.metrics, hostParts.maxReaders);
  const multiplexer = new Multiplexer();
  const parts: RouteParts = { ...hostParts, basePath, readers, multiplexer, closing: closing.signal };
  const served = new Set<string>();
  const app: App = new Hono<HostEnv>({ getPath: pathBelow(basePath, (segment) => served.has(segment)) });
  app.use(measured(parts));
  app.use(withoutBody);
  app.use(withDefaultHeaders);
  // Their host names have no base path.
  if (basePath === '') app.use(previewSites(parts));
  app.use(guarded(parts));
  for (const path of OPEN_TO_PAGES) app.use(path, allowOrigins(parts.allowedOrigins ?? []));
  const api = new Api(app, parts.maxBodyBytes);
  openApiRoutes(api, parts);
  docsRoutes(api, parts);
  previewRoutes(api, parts);
  healthRoutes(api, parts);
  const limited = limitRequests(parts.maxRequests);
  for (const path of ['/api/*', '/mcp']) app.use(path, limited, identified(parts));
  // Before the next one, which would let a connection carry another: in each of them the text doubles.
  multiplexRoutes(api, parts);
  app.use('/api/*', multiplexing(multiplexer));
  chatRoutes(api, parts);
  sessionRoutes(api, parts);
  erasureRoutes(api, parts);
  messageRoutes(api, parts);
  modelRoutes(api, parts);
  promptRoutes(api, parts);
  attachmentRoutes(api, parts);
  commandRoutes(api, parts);
  statusRoutes(api, parts);
  rendezvousRoutes(api, parts);
  fileRoutes(api, parts);
  logRoutes(api, parts);
  consoleRoutes(api, parts);
  stateRoutes(api, parts);
  todoRoutes(api, parts);
  permissionRoutes(api, parts);
  searchRoutes(api, parts);
  transferRoutes(api, parts);
  mcpRoutes(api, parts);
  initiativeRoutes(api, parts);
  initiativeCommandRoutes(api, parts);
  api.refuseOtherMethods();
  for (const { path } of api.routes) served.add(path.split('/', 2)[1] ?? '');
  app.all('/api/*', (c) => {
    throw new PerdureError('NotFound', `there is no ${c.req.method} ${c.req.path}`);
  });
  const routes = app.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => ({ method, path }));
  pageRoutes(app, parts);
  app.notFound((c) => problemResponse(problemOfError(new PerdureError('NotFound', `there is no ${c.req.path}`))));
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
    if (identify.guard) await guard(identify, c.req.raw);
    await next();
  };
}

/** Authenticates every request under /api, and those of MCP clients. */
function identified({ identify }: HostParts): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    const {
      user,
      admin = false,
      readsAll = false,
      attributes,
      setCookie,
      expiresAt,
    } = await callerOf(identify, c.req.raw);
    c.set('user', user);
    c.set('admin', admin);
    c.set('readsAll', readsAll);
    c.set('attributes', attributes);
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
  if (c.req.raw.signal.aborted && isOfCaller(error)) return new Response(null, { status: 499 });
  const session = c.req.param('id');
  const problem = loggedProblem(error, log, { method: c.req.method, route: routePath(c), ...(session && { session }) });
  const command = c.get('command') as string | undefined;
  if (command !== undefined) metrics.refused(command, problem.code);
  return problemResponse(problem, challengeOf(error));
}

/** Of a caller that has left: its body broke off, or it waited for its turn. */
function isOfCaller(error: unknown): boolean {
  if (error instanceof LeftTheLineError) return true;
  if (error instanceof PerdureError) return error.code === 'BadRequest';
  // Node's, of the body of a request.
  return error instanceof Error && error.message === 'aborted' && (error as { code?: unknown }).code === 'ECONNRESET';
}
