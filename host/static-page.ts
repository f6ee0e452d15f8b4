import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { Hono } from 'hono';
import { etag } from 'hono/etag';
import type { Page } from './context.ts';
import { pageHeaders } from './security-headers.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Vite puts a content hash into these file names, so they can be cached forever. */
const HASHED = '/assets/';
const FOREVER = 'public, max-age=31536000, immutable';

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
 * The chat page, from its build folder. The folder is read once into memory, so no request path reaches the file
 * system. If the folder is missing, "/" explains how to build it.
 * @param options.local previews may use host names below "localhost"
 */
export async function staticPage(dir: string, options: { local?: boolean } = {}): Promise<Page> {
  const files = await readFiles(dir);
  const fileOf = ({ url }: Request) => {
    const { pathname } = new URL(url);
    return pathname === '/' ? (files.get('/index.html') ?? NOT_BUILT) : files.get(pathname);
  };
  const app = new Hono().use(pageHeaders(options), etag());
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
    etag: `"${digest}"`,
  };
  return { status: 200, body, headers };
}
