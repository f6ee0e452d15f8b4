import type { MiddlewareHandler } from 'hono';
import { getMimeType } from 'hono/utils/mime';
import { z } from 'zod';
import { PerdureError } from '../../domain/errors.ts';
import { sessionRef } from '../../wire/requests.ts';
import { workspaceFiles } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { HostEnv, HostParts, RequestContext, RouteParts } from '../context.ts';
import { PREVIEW_PATH } from '../files/previews.ts';
import { listFiles, openFileInside } from '../files/workspace-files.ts';
import { type PreviewBounds, previewHeaders } from '../http/headers.ts';

const INDEX = 'index.html';

/** The workspace files of a session, for its owner. */
export function fileRoutes(api: Api, { client, previews, basePath }: RouteParts): void {
  if (!previews) return;

  api.get(
    '/api/sessions/:id/files',
    {
      operationId: 'listFiles',
      tag: 'Sessions',
      summary: "List the files of a session's workspace, at most 500",
      params: { id: sessionRef },
      responses: {
        200: jsonResponse(
          workspaceFiles,
          "The files without links and hidden files; a folder's own files come before those of its subfolders",
        ),
      },
      errors: ['SessionNotFound', 'WorkspaceNotUsable'],
    },
    async (c, { user, params }) => {
      const { session, chat } = await client.reads.session(user, params.id);
      const root = previews.rootOf({ ...chat, ...session });
      const items = await listFiles(root);
      const files_url = `${basePath}${await previews.url(root)}`;
      if (!items.some((file) => file.path === INDEX)) {
        return c.json({ items, files_url, preview_url: null, preview_site_url: null });
      }
      const preview_site_url = basePath === '' ? previews.siteUrl(root, new URL(c.req.url)) : null;
      return c.json({ items, files_url, preview_url: files_url, preview_site_url });
    },
  );
}

/** The file contents. The token in the path grants access, so requests need no other authentication. */
export function previewRoutes(api: Api, { previews, basePath }: RouteParts): void {
  if (!previews) return;

  api.get(
    `${PREVIEW_PATH}/:token/:file{.*}`,
    {
      operationId: 'preview',
      tag: 'Sessions',
      summary: 'Read a file of a workspace, for a sandboxed frame',
      description: 'The token in a `preview_url` grants access for an hour.',
      params: {
        token: z.string().min(1).meta({ description: 'The token of a `files_url` or `preview_url`' }),
        file: z.string().meta({ description: 'A path in the workspace; a folder means its index.html' }),
      },
      open: true,
      responses: {
        200: { mediaType: '*/*', description: 'The file, with the media type of its extension and a sandbox policy' },
      },
      errors: ['NotFound'],
    },
    async (c, { params: { token, file } }) => {
      const own = `${new URL(c.req.url).host}${basePath}${PREVIEW_PATH}/${token}/`;
      return answerFile(c, await previews.read(token), file, { own, frames: "'self'" });
    },
  );
}

/** The chat page on this machine, under either host name. */
const LOCAL_PAGES = 'http://localhost:* http://127.0.0.1:*';

/** Serves requests to host names of previews, which have no other routes. */
export function previewSites({ previews }: HostParts): MiddlewareHandler<HostEnv> {
  return async (c, next) => {
    const { hostname, pathname } = new URL(c.req.url);
    const root = previews?.readName(hostname);
    if (root === undefined) return next();
    if (!['GET', 'HEAD'].includes(c.req.method)) {
      throw new PerdureError('MethodNotAllowed', `a preview allows GET and HEAD, not ${c.req.method}`);
    }
    return answerFile(c, root, decoded(pathname.slice(1)), { own: "'self'", frames: LOCAL_PAGES });
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function answerFile(c: RequestContext, root: string, file: string, bounds: PreviewBounds): Promise<Response> {
  const name = file === '' || file.endsWith('/') ? `${file}${INDEX}` : file;
  const found = await openFileInside(root, name);
  if (found === undefined) throw new PerdureError('NotFound', 'there is no such file in the preview');
  await previewHeaders(bounds)(c, async () => {
    c.res = c.body(found.body, 200, headersOf(name, found.bytes));
  });
  return c.res;
}

function headersOf(name: string, bytes: number): Record<string, string> {
  return {
    'content-type': getMimeType(name) ?? 'application/octet-stream',
    'content-length': String(bytes),
    'cache-control': 'no-store',
    // The sandboxed page has no origin, so loading its own modules, fonts and data is cross-origin.
    'access-control-allow-origin': '*',
  };
}
