import { z } from 'zod';
import { type Api, json } from '../api.ts';
import { openApiDocument } from '../openapi.ts';

/** The description of all routes, also where the rest of the API is. */
export function openApiRoutes(api: Api): void {
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
        summary: 'This description, in OpenAPI 3.1',
        params: {},
        open: true,
        answers: { 200: json(z.looseObject({ openapi: z.string(), paths: z.looseObject({}) }), 'The description') },
      },
      // Made when it is first asked for: all routes are there by then.
      (c) => c.json((made ??= openApiDocument(api))),
    );
  }
}
