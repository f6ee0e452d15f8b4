import { getMimeType } from 'hono/utils/mime';
import { PerdureError } from '../../domain/errors.ts';
import type { App, HostParts } from '../context.ts';
import { PREVIEW_PATH } from '../previews.ts';
import { listFiles, readFileInside } from '../workspace-files.ts';

const INDEX = 'index.html';

/** What a session has built, for its owner. */
export function fileRoutes(app: App, { client, previews }: HostParts): void {
  if (!previews) return;

  app.get('/api/sessions/:id/files', async (c) => {
    const { session, chat } = await client.reads.session(c.get('user'), c.req.param('id'));
    const root = previews.rootOf({ ...chat, ...session });
    const items = await listFiles(root);
    const preview_url = items.some((file) => file.path === INDEX) ? await previews.url(root) : null;
    return c.json({ items, preview_url });
  });
}

/** The files themselves, under an address that works without a cookie, so that no request needs to say who calls. */
export function previewRoutes(app: App, { previews }: HostParts): void {
  if (!previews) return;

  app.get(`${PREVIEW_PATH}/:token/:file{.*}`, async (c) => {
    const { token, file } = c.req.param();
    const root = await previews.read(token);
    const name = file === '' || file.endsWith('/') ? `${file}${INDEX}` : file;
    const body = await readFileInside(root, name);
    if (body === undefined) throw new PerdureError('NotFound', 'there is no such file in the preview');
    return c.body(body, 200, headersOf(name, `${new URL(c.req.url).host}${PREVIEW_PATH}/${token}/`));
  });
}

/**
 * Whatever the agent wrote is somebody else's page: it runs without an origin, reaches its own files only, and stands
 * in no frame but ours.
 */
function headersOf(name: string, own: string): Record<string, string> {
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
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    // Without an origin, modules, fonts and data are fetched as if from elsewhere.
    'access-control-allow-origin': '*',
  };
}
