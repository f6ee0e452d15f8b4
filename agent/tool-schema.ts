import { z } from 'zod';

/** A JSON Schema (draft 7) as providers take it. */
export type JsonSchema = Record<string, unknown>;

const schemas = new WeakMap<object, JsonSchema>();

/** The JSON Schema of a tool's input; cached. */
export function toolJsonSchema(tool: { input: z.ZodType }): JsonSchema {
  const known = schemas.get(tool);
  if (known) return known;
  // The schema's input side: transforms and defaults are applied when the tool runs.
  const { $schema: _dialect, ...schema } = z.toJSONSchema(tool.input, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
  });
  schemas.set(tool, schema);
  return schema;
}
