import type { Modality, ModelInfo } from '../../domain/model-info.ts';
import { definedFields } from '../definition/defined-fields.ts';
import generated from './model-catalog.generated.json' with { type: 'json' };
import type { Variant } from './variants.ts';

/** What is known of a model: an entry of PERDURE_MODELS, or of the catalog in this package. Limits in tokens. */
export interface CatalogEntry {
  /** Of input and output together. */
  context_limit?: number | undefined;
  /** The longest input; unset: `context_limit`. */
  max_input?: number | undefined;
  max_output?: number | undefined;
  /** From 1, the cheapest. */
  tier?: number | undefined;
  modalities?: readonly Modality[] | undefined;
  /** It has the variants low, medium and high, unless `variants` are given. */
  reasoning?: boolean | undefined;
  variants?: Readonly<Record<string, Variant>> | undefined;
}

/** Entries by `provider/model`. */
export type CatalogEntries = Readonly<Record<string, CatalogEntry>>;

/** What is known of a model, without gaps. */
export type KnownModel = Required<Omit<ModelInfo, 'variants'>> & { variants: Readonly<Record<string, Variant>> };

/** Limits of models that are in no catalog: no current model has smaller ones. */
const UNKNOWN = { context_limit: 128_000, max_output: 8_192 };

const LEVELS = { low: { reasoning: 'low' }, medium: { reasoning: 'medium' }, high: { reasoning: 'high' } } as const;

const BUILT_IN = new Map<string, CatalogEntry & { deprecated?: boolean }>(
  Object.entries(generated.models as CatalogEntries),
);

/** The models of common providers with their limits (`npm run refresh:models`), under the application's own entries. */
export class ModelCatalog {
  private readonly own: CatalogEntries;

  constructor(own: CatalogEntries) {
    this.own = own;
  }

  /** What is known of a model. Each field is that of the application's entry, or else of the built-in one. */
  find(ref: string): KnownModel {
    const own = definedFields(this.own[ref] ?? {});
    const entry = { ...BUILT_IN.get(ref), ...own };
    const { context_limit = UNKNOWN.context_limit, max_output = UNKNOWN.max_output } = entry;
    const { tier = null, modalities = null, reasoning, variants } = entry;
    // The application's limit of the whole replaces a built-in one of the input.
    const { max_input = context_limit } = own.context_limit === undefined ? entry : own;
    return {
      ...{ model: ref, context_limit, tier, modalities },
      max_input: Math.min(max_input, context_limit),
      max_output: Math.min(max_output, context_limit),
      variants: variants ?? (reasoning === true ? LEVELS : {}),
    };
  }

  /**
   * The models of a provider that are offered for choice: the application's own entries, or without any the built-in ones,
   * unless the provider's server has models of its own.
   */
  offered(provider: string, hasOwnModels: boolean): string[] {
    const isOfProvider = (ref: string) => ref.startsWith(`${provider}/`);
    const own = Object.keys(this.own).filter(isOfProvider);
    if (own.length > 0 || hasOwnModels) return own;
    return [...BUILT_IN].flatMap(([ref, { deprecated }]) => (isOfProvider(ref) && !deprecated ? [ref] : []));
  }
}

/** As callers see it. */
export function infoOf({ variants, ...known }: KnownModel): ModelInfo {
  return { ...known, variants: Object.keys(variants) };
}
