// Every route of a host, from its OpenAPI document, with a valid request, so that new routes are attacked too.

type Schema = { [keyword: string]: unknown } & { properties?: Record<string, Schema> };

interface Parameter {
  in: 'path' | 'query' | 'header' | 'cookie';
  name: string;
  schema: Schema;
}

interface Operation {
  operationId: string;
  security?: unknown[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { content?: Record<string, unknown> }>;
}

/** One route. */
export interface Route {
  /** `POST /api/sessions/{id}/open` */
  name: string;
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  operationId: string;
  /** Needs no authentication. */
  open: boolean;
  /** Responds with a stream. */
  streams: boolean;
  /** Names of its path and query parameters. */
  params: string[];
  query: string[];
  idempotent: boolean;
  /** A valid body; undefined: the route has none. */
  body: unknown;
}

/** Values of parameters by name, and a body to use instead of the sample. */
export interface Filling {
  params?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
}

/** The arguments of a `fetch`. */
export interface Sending {
  path: string;
  init: Omit<RequestInit, 'headers'> & { method: string; headers: Record<string, string> };
}

/** Reads all routes of the host at `url`. */
export async function routesOf(url: string): Promise<Route[]> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>;
    components?: { schemas?: Record<string, Schema> };
  };
  const named = document.components?.schemas ?? {};
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => routeOf(method, path, operation, named)),
  );
}

function routeOf(method: string, path: string, operation: Operation, named: Record<string, Schema>): Route {
  const { operationId, parameters = [], requestBody, responses } = operation;
  const among = (place: Parameter['in']) => parameters.filter((each) => each.in === place).map((each) => each.name);
  const schema = requestBody?.content['application/json']?.schema;
  return {
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase() as Route['method'],
    path,
    operationId,
    open: operation.security?.length === 0,
    streams: 'text/event-stream' in (responses['200']?.content ?? {}),
    params: among('path'),
    query: among('query'),
    idempotent: among('header').includes('idempotency-key'),
    body: BODIES[operationId] ?? (schema && sample(schema, named)),
  };
}

/** Bodies with constraints that the OpenAPI document does not express. */
const BODIES: Record<string, unknown> = {
  chat: { id: 'a-chat', messages: [{ id: 'm-chat', role: 'user', parts: [{ type: 'text', text: 'hello' }] }] },
  openSession: {
    agent: 'site-builder',
    project_id: 'prj-x',
    model: 'openai/test',
    workspace_root: 'x',
    metadata: { a: 'x' },
  },
  submitMessage: { id: 'm-sent', text: 'hello' },
  mcp: { jsonrpc: '2.0', id: 1, method: 'ping' },
  addDecision: { context: 'x', decision: 'x', reason: 'x' },
  branch: { from_message_id: 'm-x', model: 'openai/test', metadata: { a: 'x' }, tail_turns: 2 },
};

/** A value that matches a schema: its required fields, and all optional texts. */
function sample(schema: Schema, named: Record<string, Schema>): unknown {
  if (typeof schema['$ref'] === 'string') return sample(named[schema['$ref'].split('/').at(-1) ?? ''] ?? {}, named);
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  const choices = (schema['anyOf'] ?? schema['oneOf']) as Schema[] | undefined;
  const usable = choices?.find((choice) => !('required' in choice && !('type' in choice)));
  if (usable) return sample(usable, named);
  const type = Array.isArray(schema['type']) ? (schema['type'] as string[])[0] : schema['type'];
  if (type === 'string') return 'x';
  if (type === 'integer' || type === 'number') return schema['minimum'] ?? 1;
  if (type === 'boolean') return false;
  if (type === 'array') return [sample((schema['items'] ?? {}) as Schema, named)];
  if (type !== 'object') return {};
  const required = (schema['required'] ?? []) as string[];
  return Object.fromEntries(
    Object.entries(schema.properties ?? {})
      .filter(([name, each]) => required.includes(name) || typeof sample(each, named) === 'string')
      .map(([name, each]) => [name, sample(each, named)]),
  );
}

/** Ids of nothing. */
const UNKNOWN_IDS = {
  decision_id: 'dec_x',
  blocker_id: 'block-000',
  work_session: 'session-000',
  task_id: 'tsk_x',
  rule_id: 'rule_x',
  seq: '999999',
  connection: 'connection-x',
  stream: '1',
};

/**
 * A request to a route.
 * @throws {Error} for a path parameter without a value: a new parameter needs a value here
 */
export function requestTo(route: Route, { params = {}, query = {}, body = route.body }: Filling = {}): Sending {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
    const value = { ...UNKNOWN_IDS, ...params }[name];
    if (value === undefined) throw new Error(`${route.name}: no value for {${name}}`);
    return encodeURIComponent(value);
  });
  const search = Object.keys(query).length > 0 ? `?${new URLSearchParams(query)}` : '';
  const json = typeof body === 'string' ? body : JSON.stringify(body);
  const init = {
    method: route.method,
    headers: route.method === 'GET' ? {} : JSON_TYPE,
    ...(route.method !== 'GET' && body !== undefined && { body: json }),
  };
  return { path: path + search, init };
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** Every text in a value: its path, and a function that copies the value with another text there. */
export function* textsIn(value: unknown, path = ''): Generator<{ path: string; replaced: (text: string) => unknown }> {
  if (typeof value === 'string') yield { path, replaced: (text) => text };
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    for (const found of textsIn(member, `${path}.${key}`)) {
      const copy = (text: string) =>
        Array.isArray(value)
          ? value.map((each, at) => (String(at) === key ? found.replaced(text) : (each as unknown)))
          : { ...value, [key]: found.replaced(text) };
      yield { path: found.path, replaced: copy };
    }
  }
}

/** The parts of a response by which another user could tell sessions apart. Streams are closed. */
export async function comparable(response: Response): Promise<{ status: number; type: string | null; text: string }> {
  const type = response.headers.get('content-type');
  if (type?.startsWith('text/event-stream') === true) {
    await response.body?.cancel();
    return { status: response.status, type, text: '' };
  }
  return { status: response.status, type, text: await response.text() };
}
