import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { MODALITIES, REASONING_LEVELS } from '../domain/model-info.ts';
import { MODEL_PATTERN } from '../domain/model-ref.ts';
import { ConfigError } from './error.ts';

const tokens = z.int().positive().optional();
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const variant = z.strictObject({
  reasoning: z.enum(REASONING_LEVELS).optional(),
  json: z.literal(true).optional(),
  provider_options: z.record(z.string(), z.record(z.string(), z.json())).optional(),
});

/** Every field is optional: what is not given is that of the built-in catalog. */
const model = z.strictObject({
  context_limit: tokens,
  max_input: tokens,
  max_output: tokens,
  tier: z.int().positive().optional(),
  modalities: z.array(z.enum(MODALITIES)).min(1).optional(),
  reasoning: z.boolean().optional(),
  variants: z.record(z.string().regex(NAME, 'a name of letters, digits, _, . and -'), variant).optional(),
});

const models = z.record(z.string().regex(MODEL_PATTERN, 'names such as openai/gpt-5'), model);

/** Models by `provider/model`. Limits are in tokens. */
export type ModelsFile = Record<string, z.infer<typeof model>>;

/**
 * Reads the contents of a PERDURE_MODELS file.
 * @throws {ConfigError} naming the invalid entry
 */
export function parseModels(json: string): ModelsFile {
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
      expected: issue.code === 'invalid_key' ? nameOf(issue.path) : describe(issue.path, issue.message),
    })),
  );
}

/**
 * Reads the PERDURE_MODELS file; without one there are no models.
 * @throws {ConfigError} when it cannot be read or parsed
 */
export function loadModels(file: string | undefined): ModelsFile {
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

/** What the name of a model, or of one of its variants, is expected to be. */
function nameOf(path: readonly PropertyKey[]): string {
  return path.includes('variants') ? 'a name of letters, digits, _, . and -' : 'a name such as openai/gpt-5';
}

const MODEL = '{ context_limit?, max_input?, max_output?, tier?, modalities?, reasoning?, variants? }';
const EXPECTED: Readonly<Record<string, string>> = {
  context_limit: 'a whole number of tokens',
  max_input: 'a whole number of tokens',
  max_output: 'a whole number of tokens',
  tier: 'a whole number from 1, the cheapest',
  reasoning: 'true or false',
  modalities: `any of ${MODALITIES.join(', ')}`,
  variants: 'variants by name, such as { "deep": { "reasoning": "high" } }',
};

const VARIANT = '{ reasoning?, json?, provider_options? }';
const EXPECTED_OF_VARIANT: Readonly<Record<string, string>> = {
  reasoning: `one of ${REASONING_LEVELS.join(', ')}`,
  json: 'true',
  provider_options: 'options by provider, such as { "openai": { "serviceTier": "flex" } }',
};

function describe(path: readonly PropertyKey[], message: string): string {
  const [, field, , ofVariant] = path.map(String);
  if (field !== 'variants' || path.length === 2) return EXPECTED[field ?? ''] ?? `${MODEL} (${message})`;
  return EXPECTED_OF_VARIANT[ofVariant ?? ''] ?? `${VARIANT} (${message})`;
}
