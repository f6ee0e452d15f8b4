import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { PerdureError } from '../../domain/errors.ts';

/** Swagger UI inside the published package. */
const PACKED = path.join(import.meta.dirname, '..', '..', 'swagger-ui');

const pageOf = (base: string) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Perdure: HTTP API</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="${base}/docs/swagger-ui.css" />
  </head>
  <body>
    <div id="api"></div>
    <script src="${base}/docs/swagger-ui-bundle.js"></script>
    <script src="${base}/docs/start.js"></script>
  </body>
</html>
`;

/** `validatorUrl: null`: do not send the document to swagger.io's validator. */
const startOf = (
  base: string,
) => `SwaggerUIBundle({ url: '${base}/openapi.json', dom_id: '#api', deepLinking: true, validatorUrl: null });
`;

interface DocsFile {
  type: string;
  read: () => Promise<Uint8Array<ArrayBuffer>>;
}

/** The files of /docs, by name. */
export type DocsFiles = Readonly<Record<string, DocsFile>>;

const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';

/** The files of /docs below a base path. Swagger UI is read at the first request. */
export function docsFiles(base: string): DocsFiles {
  return {
    'index.html': { type: HTML, read: async () => bytes(pageOf(base)) },
    'start.js': { type: SCRIPT, read: async () => bytes(startOf(base)) },
    'swagger-ui-bundle.js': { type: SCRIPT, read: () => swaggerFile('swagger-ui-bundle.js') },
    'swagger-ui.css': { type: 'text/css; charset=utf-8', read: () => swaggerFile('swagger-ui.css') },
  };
}

const cached = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();

/** Reads it once, also for many requests at once: the file is large, and the route needs no authentication. */
function swaggerFile(name: string): Promise<Uint8Array<ArrayBuffer>> {
  const known = cached.get(name);
  if (known !== undefined) return known;
  const file = readSwaggerFile(name);
  cached.set(name, file);
  file.catch(() => cached.delete(name));
  return file;
}

async function readSwaggerFile(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await readFile(path.join(swaggerFolder(), name)));
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function swaggerFolder(): string {
  if (existsSync(PACKED)) return PACKED;
  try {
    return path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  } catch (cause) {
    throw new PerdureError('NotFound', 'this page needs the package swagger-ui-dist, which is not installed', {
      cause,
    });
  }
}
