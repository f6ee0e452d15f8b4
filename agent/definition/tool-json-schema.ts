import type { Schema } from 'ai';
import { z } from 'zod';
import { type Issue, type JsonSchema, jsonSchemaValidator } from './json-schema.ts';

/** The schema of a tool's input: one of zod, one of the AI SDK's `jsonSchema`, or a JSON Schema. */
export type InputSchema = z.ZodType | Schema | JsonSchema;

/** What a tool gets for a schema. */
export type InputOf<Given> = Given extends z.ZodType
  ? z.output<Given>
  : Given extends Schema<infer Value>
    ? Value
    : Record<string, unknown>;

/** What a model sends for a schema. */
export type SentInputOf<Given> = Given extends z.ZodType ? z.input<Given> : InputOf<Given>;

/** A parsed input, or what is wrong with it. */
export type ParsedInput = { ok: true; input: unknown } | { ok: false; issues: readonly Issue[] };

interface Prepared {
  jsonSchema: JsonSchema;
  parse(value: unknown): Promise<ParsedInput>;
}

const prepared = new WeakMap<object, Prepared>();

/** The JSON Schema of a tool's input; cached. @throws {TypeError} the schema is invalid; the message says where */
export function toolJsonSchema(tool: { input: InputSchema }): JsonSchema {
  return schemaOf(tool).jsonSchema;
}

/** Parses a tool's input. */
export function parseToolInput(tool: { input: InputSchema }, value: unknown): Promise<ParsedInput> {
  return schemaOf(tool).parse(value);
}

function schemaOf({ input }: { input: InputSchema }): Prepared {
  const known = prepared.get(input);
  if (known) return known;
  const made = input instanceof z.ZodType ? ofZod(input) : isSdkSchema(input) ? ofSdk(input) : ofJsonSchema(input);
  prepared.set(input, made);
  return made;
}

function ofZod(schema: z.ZodType): Prepared {
  // The schema's input side: transforms and defaults are applied when the tool runs.
  const { $schema: _dialect, ...jsonSchema } = z.toJSONSchema(schema, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
  });
  return {
    jsonSchema,
    parse: async (value) => {
      const parsed = await schema.safeParseAsync(value);
      return parsed.success ? { ok: true, input: parsed.data } : { ok: false, issues: parsed.error.issues };
    },
  };
}

function ofJsonSchema(given: JsonSchema): Prepared {
  const problemsOf = jsonSchemaValidator(given);
  const { $schema: _dialect, ...jsonSchema } = given;
  return {
    jsonSchema,
    parse: async (value) => {
      const issues = problemsOf(value);
      return issues.length === 0 ? { ok: true, input: value } : { ok: false, issues };
    },
  };
}

/** The schema is checked first, then by the function that `jsonSchema` was given, if any. */
function ofSdk(schema: Schema): Prepared {
  const { jsonSchema } = schema;
  if ('then' in jsonSchema) throw new TypeError('expected a JSON Schema, not a promise of one');
  const plain = ofJsonSchema(jsonSchema as JsonSchema);
  return {
    ...plain,
    parse: async (value) => {
      const checked = await plain.parse(value);
      const validated = checked.ok ? await schema.validate?.(value) : undefined;
      if (validated === undefined) return checked;
      if (validated.success) return { ok: true, input: validated.value };
      return { ok: false, issues: [{ path: [], message: validated.error.message }] };
    },
  };
}

/** The two fields that the AI SDK's schemas have and JSON Schemas do not. */
function isSdkSchema(input: Schema | JsonSchema): input is Schema {
  return 'jsonSchema' in input && 'validate' in input;
}
