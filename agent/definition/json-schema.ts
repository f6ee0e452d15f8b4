import { dereference, type OutputUnit, type SchemaDraft, Validator } from '@cfworker/json-schema';
import draft07 from './json-schema-draft-07.json' with { type: 'json' };

/** A JSON Schema of a tool's input, as providers take it. */
export type JsonSchema = Record<string, unknown>;

/** A problem of a value: where it is, and what was expected. */
export interface Issue {
  path: PropertyKey[];
  message: string;
}

/** By `$schema`; without it a schema is one of 2020-12, as MCP has it. Draft 7 only adds keywords to draft 6. */
const DRAFTS: readonly (readonly [part: string, draft: SchemaDraft])[] = [
  ['draft-06', '7'],
  ['draft-07', '7'],
  ['2019-09', '2019-09'],
  ['2020-12', '2020-12'],
];

/** Errors of these say only that something inside is wrong, which has an error of its own. */
const OUTER = new Set(['properties', 'additionalProperties', 'items', 'prefixItems', '$ref', 'allOf']);
const MOST_ISSUES = 10;

/**
 * The meta-schema of draft 7 (https://json-schema.org/draft-07/schema), for schemas of all drafts: they share its keywords,
 * except that later ones call `definitions` `$defs`.
 */
const metaSchema = new Validator(
  { ...draft07, properties: { ...draft07.properties, $defs: draft07.properties.definitions } } as object,
  '7',
  false,
);

/**
 * A function that returns what is wrong with a value; an empty list: it matches the schema.
 * @throws {TypeError} the schema is invalid; the message says where and what was expected
 */
export function jsonSchemaValidator(given: JsonSchema): (value: unknown) => Issue[] {
  // A copy: the library marks the schema's objects.
  const schema = structuredClone(given);
  const [problem] = issuesOf(metaSchema.validate(schema).errors);
  if (problem !== undefined) throw new TypeError([...problem.path, problem.message].join(': '));
  requireReferences(schema);
  const validator = new Validator(schema, draftOf(given), false);
  return (value) => issuesOf(validator.validate(value).errors);
}

/** @throws {TypeError} `$schema` names another draft */
function draftOf({ $schema: named = '2020-12' }: JsonSchema): SchemaDraft {
  const draft = DRAFTS.find(([part]) => String(named).includes(part))?.[1];
  if (draft !== undefined) return draft;
  throw new TypeError(`$schema: expected draft 6, 7, 2019-09 or 2020-12, not ${JSON.stringify(named)}`);
}

/** @throws {TypeError} a `$ref` leads nowhere: schemas are not loaded from elsewhere */
function requireReferences(schema: JsonSchema): void {
  const lookup = dereference(structuredClone(schema));
  for (const part of Object.values(lookup)) {
    if (typeof part !== 'object' || part.$ref === undefined) continue;
    const { __absolute_ref__: place } = part;
    if (place === undefined || !(place in lookup))
      throw new TypeError(`$ref: expected the place of a schema in this schema, not ${JSON.stringify(part.$ref)}`);
  }
}

function issuesOf(errors: readonly OutputUnit[]): Issue[] {
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  return (inner.length > 0 ? inner : errors).slice(0, MOST_ISSUES).map(({ instanceLocation, error }) => ({
    path: instanceLocation
      .split('/')
      .slice(1)
      .map((step) => decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')),
    message: error,
  }));
}
