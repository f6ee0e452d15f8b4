import { Hono } from 'hono';
import { z } from 'zod';
import { PerdureError } from '../../domain/errors.ts';
import type { Api } from '../api/api.ts';
import { type DocsFiles, docsFiles } from '../api/docs-files.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { pageHeaders } from '../http/headers.ts';

/** Swagger UI for the OpenAPI document. */
export function docsRoutes(api: Api, { basePath }: RouteParts): void {
  const files = docsFiles(basePath);
  const common = { tag: 'Operation' as const, open: true };

  api.get(
    '/docs',
    {
      ...common,
      operationId: 'browse',
      summary: 'Swagger UI for this document',
      params: {},
      responses: { 200: { mediaType: 'text/html', description: 'The page' } },
    },
    (c) => answer(c, files, 'index.html'),
  );

  api.get(
    '/docs/:file',
    {
      ...common,
      operationId: 'getDocsFile',
      summary: 'A file of the Swagger UI page',
      params: { file: z.string().min(1).max(64).meta({ description: 'The file name' }) },
      responses: { 200: { mediaType: '*/*', description: 'The file' } },
      errors: ['NotFound'],
    },
    (c, { params }) => answer(c, files, params.file),
  );
}

type File = { body: Uint8Array<ArrayBuffer>; type: string };

/** An app of its own sets the response once: Hono copies the body of one that replaces another. */
const app = new Hono<{ Bindings: File }>().use(pageHeaders());
app.get('*', ({ env, body }) => body(env.body, 200, { 'content-type': env.type, 'cache-control': 'no-cache' }));

async function answer(c: RequestContext, files: DocsFiles, name: string): Promise<Response> {
  const file = Object.hasOwn(files, name) ? files[name] : undefined;
  if (file === undefined) throw new PerdureError('NotFound', `there is no ${c.req.path}`);
  return app.fetch(c.req.raw, { body: await file.read(), type: file.type });
}
