import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { Hono } from 'hono';
import { compress } from 'hono/compress';
import { etag } from 'hono/etag';
import type { PageHandler } from '../context.ts';
import { drawingHeaders, pageHeaders } from './headers.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** Vite puts a content hash into these file names, so they can be cached forever. */
const HASHED = '/assets/';
const FOREVER = 'public, max-age=31536000, immutable';

/** Paths of the chat page: the chat, a session, the list of initiatives, and one of them. */
const PAGES = /^\/(?:s\/[^/]+|i(?:\/\w{1,64})?)?$/;
/** The other pages: the console, and the frame in which the chat page draws diagrams. */
const OTHER_PAGES: Readonly<Record<string, string>> = {
  '/console': '/console/index.html',
  '/diagram': '/diagram/index.html',
};

interface StaticFile {
  status: 200 | 503;
  body: Uint8Array<ArrayBuffer>;
  headers: Record<string, string>;
}

const NOT_BUILT: StaticFile = {
  status: 503,
  body: new TextEncoder().encode(
    'The chat page is not built: run "npm run build:page", then start the host again. The API is at /api.\n',
  ),
  headers: { 'content-type': 'text/plain; charset=utf-8' },
};

/**
 * The pages, from their build folder. The folder is read once into memory, so no request path reaches the file
 * system. If the folder is missing, their paths explain how to build them.
 * @param options.local previews may use host names below "localhost"
 */
export async function staticPage(dir: string, options: { local?: boolean } = {}): Promise<PageHandler> {
  const files = await readFiles(dir);
  const fileOf = ({ url }: Request) => {
    const { pathname } = new URL(url);
    const page = PAGES.test(pathname) ? '/index.html' : OTHER_PAGES[pathname];
    return page === undefined ? files.get(pathname) : (files.get(page) ?? NOT_BUILT);
  };
  const ofPage = pageHeaders(options);
  const app = new Hono()
    .use((c, next) => (/^\/diagram(?:\/|$)/.test(c.req.path) ? drawingHeaders : ofPage)(c, next), compress(), etag())
    .use(`${HASHED}*`, async (c, next) => {
      await next();
      // A frame without an origin loads its scripts as another site would. They hold nothing of a user.
      c.res.headers.set('access-control-allow-origin', '*');
    });
  app.get('*', (c) => {
    const { body, status, headers } = fileOf(c.req.raw) ?? NOT_BUILT;
    return c.newResponse(body, status, headers);
  });
  return (request) => (fileOf(request) ? app.fetch(request) : undefined);
}

async function readFiles(dir: string): Promise<Map<string, StaticFile>> {
  const names = await readdir(dir, { recursive: true }).catch(() => []);
  const served = names.filter((name) => path.extname(name) in TYPES);
  const files = served.map(async (name) => {
    const url = `/${name.split(path.sep).join('/')}`;
    return [url, staticFile(url, new Uint8Array(await readFile(path.join(dir, name))))] as const;
  });
  return new Map(await Promise.all(files));
}

function staticFile(url: string, body: Uint8Array<ArrayBuffer>): StaticFile {
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  const headers = {
    'content-type': TYPES[path.extname(url)] ?? 'application/octet-stream',
    'cache-control': url.startsWith(HASHED) ? FOREVER : 'no-cache',
    // Short files are not compressed.
    'content-length': String(body.byteLength),
    etag: `"${digest}"`,
    // Also without compression, and when nothing has changed.
    vary: 'Accept-Encoding',
  };
  return { status: 200, body, headers };
}
