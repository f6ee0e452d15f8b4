import { PerdureError } from '../../domain/errors.ts';
import type { ReasoningLevel } from '../../domain/model-info.ts';
import type { Json } from '../../domain/text.ts';
import { DefinitionError } from '../definition/define.ts';
import type { ModelObject } from '../model-object.ts';

/** Options of the AI SDK, by provider. */
export type ProviderOptions = Record<string, Record<string, Json>>;

/** A way to call a model, chosen for one turn. */
export interface Variant {
  reasoning?: ReasoningLevel | undefined;
  /** The answer is JSON: the provider's JSON mode. */
  json?: true | undefined;
  provider_options?: ProviderOptions | undefined;
}

type Variants = Readonly<Record<string, Variant>>;

/** What a variant changes of a call. */
export interface VariantCall {
  /** The variant that was chosen. */
  variant?: string;
  /** Unset: the provider's default. */
  reasoning?: ReasoningLevel;
  json?: true;
  /** Provider options of every call. */
  providerOptions?: ProviderOptions;
  /** Those of them that the variant sets. */
  variantOptions?: ProviderOptions;
}

/** What a built-in provider takes in variants. */
export interface Takes {
  /** Names under which its package reads options. */
  options: readonly string[];
  json: boolean;
}

/**
 * Checks the variants of a model of a built-in provider.
 * @throws {DefinitionError} naming what the provider does not take
 */
export function requireTakes(ref: string, variants: Variants, takes: Takes): void {
  for (const [name, { json, provider_options: options = {} }] of Object.entries(variants)) {
    const place = `PERDURE_MODELS → ${ref} → variants → ${name}`;
    if (json && !takes.json)
      throw new DefinitionError(`${place} → json: expected nothing, its provider has no JSON mode`);
    const other = Object.keys(options).find((key) => !takes.options.includes(key));
    if (other === undefined) continue;
    const names = takes.options.map((key) => `"${key}"`).join(' or ');
    throw new DefinitionError(`${place} → provider_options → ${other}: expected ${names}, the model's own provider`);
  }
}

/**
 * A model as one of its variants calls it.
 * @throws {PerdureError} `ModelNotConfigured`, naming the model's variants
 */
export function withVariant<Model extends VariantCall & { ref: string; model: ModelObject }>(
  model: Model,
  name: string,
  variants: Variants,
): Model {
  const variant = Object.hasOwn(variants, name) ? variants[name] : undefined;
  if (variant === undefined) {
    const names = Object.keys(variants);
    const has = names.length > 0 ? `variants: ${names.join(', ')}` : 'it has no variants';
    throw new PerdureError('ModelNotConfigured', `the model "${model.ref}" has no variant "${name}"; ${has}`);
  }
  const { reasoning, json, provider_options: own } = variant;
  const summary = model.model.provider === 'openai.responses' && reasoning !== undefined && reasoning !== 'none';
  const options = merged(merged(model.providerOptions, summary ? SUMMARY : undefined), own);
  return {
    ...model,
    variant: name,
    ...(reasoning !== undefined && { reasoning }),
    ...(json && { json }),
    ...(own && { variantOptions: own }),
    ...(options && { providerOptions: options }),
  };
}

/**
 * What the package asks for with `reasoning` anyway. For a model that it takes for one that does not reason, it leaves `reasoning` out
 * without a word, but warns of this.
 */
const SUMMARY: ProviderOptions = { openai: { reasoningSummary: 'detailed' } };

function merged(a: ProviderOptions | undefined, b: ProviderOptions | undefined): ProviderOptions | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries([...names].map((name) => [name, { ...a[name], ...b[name] }]));
}
