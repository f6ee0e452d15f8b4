import type { MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import type { HostEnv } from '../context.ts';

/** What a front end reads beside the body. */
const EXPOSED = ['x-perdure-session', 'x-vercel-ai-ui-message-stream', 'retry-after', 'etag', 'content-disposition'];

/** A browser may keep the answer to a preflight this long, in seconds. */
const PREFLIGHT_S = 600;

/**
 * Lets pages of these origins send requests with cookies and headers, and read the responses. Responses to others are
 * unchanged, so that browsers refuse them. Preflights are answered here, because they carry no credentials.
 */
export function allowOrigins(origins: readonly string[]): MiddlewareHandler<HostEnv> {
  const allow = cors({
    origin: [...origins],
    allowMethods: ['GET', 'POST', 'PUT', 'DELETE'],
    exposeHeaders: EXPOSED,
    credentials: true,
    maxAge: PREFLIGHT_S,
  });
  return async (c, next) => {
    if (origins.includes(c.req.header('origin') ?? '')) return allow(c, next);
    await next();
    if (origins.length > 0) c.header('vary', 'Origin', { append: true });
  };
}
