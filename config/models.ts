import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { ConfigError } from './error.ts';

/** Both are optional: only compaction, which is not built yet, will use them. */
const model = z.strictObject({
  context_limit: z.int().positive().optional(),
  max_output: z.int().positive().optional(),
});

const models = z.record(z.string().regex(/^[^/\s]+\/\S+$/, 'names such as openai/gpt-5'), model);

/** Limits of a model, in tokens. */
export type ModelInfo = z.infer<typeof model>;

/** Models by `provider/model`. */
export type Models = Record<string, ModelInfo>;

/**
 * Reads the contents of a PERDURE_MODELS file.
 * @throws {ConfigError} naming the invalid entry
 */
export function parseModels(json: string): Models {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new ConfigError([{ name: 'PERDURE_MODELS', expected: 'a file that holds JSON' }]);
  }
  const parsed = models.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ConfigError(
    parsed.error.issues.map((issue) => ({
      name: ['PERDURE_MODELS', ...issue.path].join(' → '),
      expected: issue.code === 'invalid_key' ? 'a name such as openai/gpt-5' : describe(issue.message),
    })),
  );
}

/**
 * Reads the PERDURE_MODELS file; without one there are no models.
 * @throws {ConfigError} when it cannot be read or parsed
 */
export function loadModels(file: string | undefined): Models {
  if (file === undefined) return {};
  let json: string;
  try {
    json = readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new ConfigError([{ name: 'PERDURE_MODELS', expected: `a readable file (${code} at ${file})` }]);
  }
  return parseModels(json);
}

function describe(message: string): string {
  return `{ context_limit?, max_output? } in tokens (${message})`;
}
