import { getMimeType } from 'hono/utils/mime';
import { z } from 'zod';
import { workspaceFiles } from '../../domain/answers.ts';
import { PerdureError } from '../../domain/errors.ts';
import { sessionRef } from '../../domain/wire.ts';
import { type Api, json } from '../api.ts';
import type { HostParts } from '../context.ts';
import { PREVIEW_PATH } from '../previews.ts';
import { listFiles, openFileInside } from '../workspace-files.ts';

const INDEX = 'index.html';

/** What a session has built, for its owner. */
export function fileRoutes(api: Api, { client, previews }: HostParts): void {
  if (!previews) return;

  api.get(
    '/api/sessions/:id/files',
    {
      operationId: 'listFiles',
      tag: 'Sessions',
      summary: "List the files of a session's workspace, at most 500",
      params: { id: sessionRef },
      answers: {
        200: json(workspaceFiles, 'Without links and hidden ones, those of a folder before those in folders'),
      },
      errors: ['SessionNotFound', 'WorkspaceNotUsable'],
    },
    async (c, { user, params }) => {
      const { session, chat } = await client.reads.session(user, params.id);
      const root = previews.rootOf({ ...chat, ...session });
      const items = await listFiles(root);
      const preview_url = items.some((file) => file.path === INDEX) ? await previews.url(root) : null;
      return c.json({ items, preview_url });
    },
  );
}

/** The files themselves, under an address that works without a cookie, so that no request needs to say who calls. */
export function previewRoutes(api: Api, { previews }: HostParts): void {
  if (!previews) return;

  api.get(
    `${PREVIEW_PATH}/:token/:file{.*}`,
    {
      operationId: 'preview',
      tag: 'Sessions',
      summary: 'Read a file of a workspace, for a sandboxed frame',
      description: 'The token of a `preview_url` is the permission, for an hour.',
      params: {
        token: z.string().min(1).meta({ description: 'As it stands in a `preview_url`' }),
        file: z.string().meta({ description: 'A path in the workspace; of a folder, its index.html' }),
      },
      open: true,
      answers: { 200: { mediaType: '*/*', description: 'The file, as its name says, in a sandbox' } },
      errors: ['NotFound'],
    },
    async (c, { params: { token, file } }) => {
      const root = await previews.read(token);
      const name = file === '' || file.endsWith('/') ? `${file}${INDEX}` : file;
      const found = await openFileInside(root, name);
      if (found === undefined) throw new PerdureError('NotFound', 'there is no such file in the preview');
      const { body, bytes } = found;
      return c.body(body, 200, headersOf(name, bytes, `${new URL(c.req.url).host}${PREVIEW_PATH}/${token}/`));
    },
  );
}

/**
 * Whatever the agent wrote is somebody else's page: it runs without an origin, reaches its own files only, and stands
 * in no frame but ours.
 */
function headersOf(name: string, bytes: number, own: string): Record<string, string> {
  const policy = [
    'sandbox allow-scripts',
    "default-src 'self' data: blob: 'unsafe-inline'",
    `connect-src ${own}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ];
  return {
    'content-security-policy': policy.join('; '),
    'content-type': getMimeType(name) ?? 'application/octet-stream',
    'content-length': String(bytes),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    // Without an origin, modules, fonts and data are fetched as if from elsewhere.
    'access-control-allow-origin': '*',
  };
}
