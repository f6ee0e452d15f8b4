// Checks every response that a test gets against the OpenAPI document.
import addFormats from 'ajv-formats';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { expect } from 'vitest';

interface Described {
  description: string;
  headers?: Record<string, { required?: boolean; schema: object }>;
  content?: Record<string, { schema: object }>;
}

export interface OpenApi {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, Described> }>>;
}

const METHODS = ['get', 'post', 'delete', 'put', 'patch', 'options', 'head', 'trace'];

/** An OpenAPI document with its compiled validators. */
class Description {
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true });
  private readonly compiled = new Map<string, ValidateFunction>();
  private readonly paths: { pattern: RegExp; path: string }[];
  private readonly document: OpenApi;

  constructor(document: OpenApi) {
    this.document = document;
    addFormats.default(this.ajv);
    this.ajv.addSchema(document, 'document');
    // Paths with fewer parameters take precedence: /api/sessions/{id}/open before /api/sessions/{id}/{name}.
    const parameters = (path: string) => path.split('{').length;
    this.paths = Object.keys(document.paths)
      .toSorted((a, b) => parameters(a) - parameters(b))
      .map((path) => ({
        path,
        pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+').replaceAll('.', '\\.')}$`),
      }));
  }

  pathOf(pathname: string): string | undefined {
    return this.paths.find(({ pattern }) => pattern.test(pathname))?.path;
  }

  answer(path: string, method: string, status: number): Described | undefined {
    return this.document.paths[path]?.[method]?.responses[status];
  }

  methods(path: string): string[] {
    return METHODS.filter((method) => this.document.paths[path]?.[method]);
  }

  /** The errors of a body; undefined if it is valid. */
  fault(pointer: readonly (string | number)[], body: unknown): string | undefined {
    const $ref = `document#/${pointer.map((key) => encodeURIComponent(String(key).replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
    const validate = this.compiled.get($ref) ?? this.ajv.compile({ $ref });
    this.compiled.set($ref, validate);
    return validate(body) ? undefined : this.ajv.errorsText(validate.errors);
  }
}

/** By the URL of the host, and by the text of the document: most hosts have the same one, and compiling it takes long. */
const ofHost = new Map<string, Promise<Description>>();
const ofText = new Map<string, Description>();

function descriptionOf(url: string): Promise<Description> {
  const known = ofHost.get(url);
  if (known) return known;
  const read = fetch(`${url}/openapi.json`).then(async (response) => {
    const text = await response.text();
    const description = ofText.get(text) ?? new Description(JSON.parse(text) as OpenApi);
    ofText.set(text, description);
    return description;
  });
  ofHost.set(url, read);
  return read;
}

/** Expects that a response's status, headers and JSON body are as described; the events of streams are not checked. */
export async function expectDescribed(url: string, method: string, target: string, response: Response): Promise<void> {
  const { pathname } = new URL(target, url);
  const description = await descriptionOf(url);
  const path = description.pathOf(pathname);
  const verb = method === 'HEAD' ? 'get' : method.toLowerCase();
  const what = `${method} ${pathname} → ${response.status}`;
  if (path === undefined) return;
  if (!description.methods(path).includes(verb)) {
    expect(response.status, `${what}: no such method`).toBe(405);
    return;
  }
  const answer = description.answer(path, verb, response.status);
  if (answer === undefined) throw new Error(`${what} is not described`);
  for (const [name, header] of Object.entries(answer.headers ?? {})) {
    if (header.required === true) expect(response.headers.has(name), `${what}: header ${name}`).toBe(true);
  }
  const type = response.headers.get('content-type')?.split(';')[0];
  const types = Object.keys(answer.content ?? {});
  if (!types.includes('*/*')) expect(type === undefined ? [] : [type], `${what}: content type`).toEqual(types);
  if (type?.endsWith('json') !== true || method === 'HEAD') return;
  const pointer = ['paths', path, verb, 'responses', response.status, 'content', type, 'schema'];
  const fault = description.fault(pointer, await response.clone().json());
  if (fault !== undefined) throw new Error(`${what} is not as described: ${fault}`);
}
