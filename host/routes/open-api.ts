import { z } from 'zod';
import { type Api, jsonResponse } from '../api/api.ts';
import { openApiDocument } from '../api/open-api-document.ts';
import type { RouteParts } from '../context.ts';

/** The OpenAPI document, at the root and under /api. */
export function openApiRoutes(api: Api, { basePath }: RouteParts): void {
  let made: object | undefined;
  for (const [path, operationId] of [
    ['/openapi.json', 'describe'],
    ['/api/openapi.json', 'describeUnderApi'],
  ] as const) {
    api.get(
      path,
      {
        operationId,
        tag: 'Operation',
        summary: 'This OpenAPI 3.1 document',
        params: {},
        open: true,
        responses: {
          200: jsonResponse(z.looseObject({ openapi: z.string(), paths: z.looseObject({}) }), 'The document'),
        },
      },
      // Generated at the first request, when all routes have been added.
      (c) => c.json((made ??= openApiDocument(api, basePath))),
    );
  }
}
