import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from './context.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Where previews are that have a name of their own. */
const LOCAL_PREVIEWS = 'http://*.preview.localhost:*';

/** The page runs its own script and style and talks to its own server; nothing else, and in nobody's frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  // Previews of what the agent has built; each forbids itself everything else.
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The headers of every page of ours. */
export const SECURITY = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};

/** Vite puts a digest in these names, so what one of them names never changes. */
const HASHED = '/assets/';
const FOREVER = 'public, max-age=31536000, immutable';

interface StaticFile {
  body: Uint8Array<ArrayBuffer>;
  headers: Record<string, string>;
}

/**
 * The chat page out of a folder that `dir` was built into. It is read once: a host that was started with a page goes on
 * with it, and a path never leads to anything else on disk. Without such a folder it says how to build it. `local`: the
 * host's previews have names of their own.
 */
export async function staticPage(dir: string, { local = false } = {}): Promise<Page> {
  const files = await readFiles(dir, local ? withLocalPreviews(POLICY) : POLICY);
  return (request) => {
    const { pathname } = new URL(request.url);
    const file = files.get(pathname === '/' ? '/index.html' : pathname);
    if (file) return answer(request, file);
    return pathname === '/' ? notBuilt() : undefined;
  };
}

function answer(request: Request, { body, headers }: StaticFile): Response {
  const isKnown = request.headers
    .get('if-none-match')
    ?.split(/,\s*/)
    .includes(headers['etag'] ?? '');
  return isKnown ? new Response(null, { status: 304, headers }) : new Response(body, { headers });
}

function notBuilt(): Response {
  const text = 'The chat page is not built: run "npm run build:page", then start the host again. The API is at /api.\n';
  return new Response(text, { status: 503, headers: { 'content-type': 'text/plain; charset=utf-8' } });
}

function withLocalPreviews(policy: string): string {
  // It looks whether the browser finds such names before it shows what is there.
  return policy.replaceAll(/(?<=(?:frame|connect)-src )'self'/g, `'self' ${LOCAL_PREVIEWS}`);
}

async function readFiles(dir: string, policy: string): Promise<Map<string, StaticFile>> {
  const names = await readdir(dir, { recursive: true }).catch(() => []);
  const served = names.filter((name) => path.extname(name) in TYPES);
  const files = served.map(async (name) => {
    const url = `/${name.split(path.sep).join('/')}`;
    return [url, staticFile(url, new Uint8Array(await readFile(path.join(dir, name))), policy)] as const;
  });
  return new Map(await Promise.all(files));
}

function staticFile(url: string, body: Uint8Array<ArrayBuffer>, policy: string): StaticFile {
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  const headers = {
    ...SECURITY,
    'content-security-policy': policy,
    'content-type': TYPES[path.extname(url)] ?? 'application/octet-stream',
    'cache-control': url.startsWith(HASHED) ? FOREVER : 'no-cache',
    etag: `"${digest}"`,
  };
  return { body, headers };
}
