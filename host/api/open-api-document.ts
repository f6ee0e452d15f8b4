import { z } from 'zod';
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponsesObject,
  type ZodOpenApiSecuritySchemeObject,
} from 'zod-openapi';
import type { ErrorCode } from '../../domain/errors.ts';
import { MULTIPLEX_HEADER } from '../../domain/multiplex.ts';
import { idempotencyKey, multiplexedStream } from '../../wire/requests.ts';
import { byStatus, problemDetails } from '../../wire/responses.ts';
import { type Api, type DescribedRoute, EVENT_STREAM, type RouteResponse, templateOf } from './api.ts';

/** Ways to authenticate; a host's own `identify` hook may add others. */
const SECURITY: Record<string, ZodOpenApiSecuritySchemeObject> = {
  bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'The claim `sub` is the user id.' },
  user: {
    type: 'apiKey',
    in: 'header',
    name: 'x-perdure-user',
    description: 'The user id. Trusted without authentication, and only by a host that serves loopback only.',
  },
  cookie: {
    type: 'apiKey',
    in: 'cookie',
    name: 'perdure_user',
    description: 'Issued and signed by a host that serves loopback only, for callers without other credentials.',
  },
};

const TAGS = [
  { name: 'Chat', description: "What the AI SDK's useChat speaks." },
  { name: 'Sessions', description: 'Open, list, read and follow sessions.' },
  { name: 'Messages', description: 'Read the transcript, and send messages without waiting for the answer.' },
  { name: 'Commands', description: "Commands of a session; each returns the session's new state." },
  { name: 'Initiatives', description: 'Position, decisions, blockers and work sessions of larger work.' },
  { name: 'Console', description: 'What developers and operators see of sessions.' },
  { name: 'Operation', description: 'Health, metrics and this description.' },
];

const DESCRIPTION =
  'Durable agent sessions. Names are snake_case, except in AI SDK types. Address a session by its `ses_` id or by one ' +
  "of its owner's aliases; for all other users it does not exist. Errors are problem details (RFC 9457); `code` is " +
  'the name of the error.';

/** The OpenAPI 3.1 document of all routes, below `basePath`. */
export function openApiDocument(api: Api, basePath: string): object {
  const paths: ZodOpenApiPathsObject = {};
  for (const route of api.routes) {
    const path = templateOf(route.path);
    paths[path] = { ...paths[path], [route.method]: operation(route) };
  }
  return createDocument({
    openapi: '3.1.1',
    info: {
      title: 'Perdure',
      version: '1',
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: basePath || '/' }],
    tags: TAGS,
    security: Object.keys(SECURITY).map((name) => ({ [name]: [] })),
    components: { securitySchemes: SECURITY },
    paths,
  });
}

function operation({ description: route, path }: DescribedRoute): ZodOpenApiOperationObject {
  const { operationId, summary, description, tag, params, query, body, rawBody, idempotent, open } = route;
  // A connection for streams is a stream, too, but no other one's.
  const carried =
    path.startsWith('/api/') && path !== '/api/multiplex' && route.responses[200]?.mediaType === EVENT_STREAM;
  const header = z.object({
    ...(idempotent === true && { 'idempotency-key': idempotencyKey.optional() }),
    ...(carried && { [MULTIPLEX_HEADER]: multiplexedStream.optional() }),
  });
  return {
    operationId,
    summary,
    ...(description !== undefined && { description }),
    tags: [tag],
    ...(open === true && { security: [] }),
    requestParams: {
      ...(Object.keys(params).length > 0 && { path: z.object(params) }),
      ...(query && { query }),
      ...(Object.keys(header.shape).length > 0 && { header }),
    },
    ...(body && {
      requestBody: { required: !body.safeParse({}).success, content: { 'application/json': { schema: body } } },
    }),
    ...(rawBody && {
      requestBody: {
        required: true,
        content: Object.fromEntries(Object.entries(rawBody).map(([type, schema]) => [type, { schema }])),
      },
    }),
    responses: { ...responsesOf(route), ...(carried && { 202: CARRIED }), ...problemsOf(route) },
  };
}

/** The response of a stream that a connection of GET /api/multiplex carries. */
const CARRIED = {
  description: 'The connection that the request names carries the stream',
  headers: z.object({ [MULTIPLEX_HEADER]: z.string() }),
};

function responsesOf(route: DescribedRoute['description']): ZodOpenApiResponsesObject {
  return Object.fromEntries(
    Object.entries(route.responses).map(([status, response]) => [status, responseOf(response)]),
  );
}

function responseOf({ description, schema, mediaType, headers }: RouteResponse) {
  // The schema of an event stream would be that of each event, which OpenAPI 3.1 cannot describe.
  const text = mediaType === EVENT_STREAM ? {} : { schema: z.string() };
  const content = schema ? { 'application/json': { schema } } : mediaType && { [mediaType]: text };
  return { description, ...(headers && { headers: z.object(headers) }), ...(content && { content }) };
}

/** Error responses: the route's own, and the common ones of input, authentication and outages. */
function problemsOf(route: DescribedRoute['description']): ZodOpenApiResponsesObject {
  const codes: ErrorCode[] = [
    ...(route.errors ?? []),
    ...(route.idempotent === true ? (['KeyReused'] as const) : []),
    ...(route.body || route.rawBody !== undefined ? (['TooLarge'] as const) : []),
    ...(route.open === true ? [] : (['BadRequest', 'Unauthorized', 'Unavailable'] as const)),
    'Forbidden',
    'Internal',
  ];
  return Object.fromEntries([...byStatus(codes)].map(([status, some]) => [status, problemResponse(status, some)]));
}

const PROBLEM_HEADERS: Record<number, Record<string, z.ZodType>> = {
  401: { 'www-authenticate': z.string() },
  429: { 'retry-after': z.string().regex(/^\d+$/).meta({ description: 'Seconds' }) },
  503: { 'retry-after': z.string().regex(/^\d+$/).meta({ description: 'Seconds' }) },
};

function problemResponse(status: number, codes: ErrorCode[]) {
  const headers = PROBLEM_HEADERS[status];
  return {
    description: codes.join(', '),
    ...(headers && { headers: z.object(headers) }),
    content: { 'application/problem+json': { schema: problemDetails(status, codes) } },
  };
}
