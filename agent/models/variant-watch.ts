import type { LanguageModelStreamPart } from 'ai';
import { PerdureError } from '../../domain/errors.ts';
import type { Json } from '../../domain/text.ts';
import { isScripted } from '../scripted/script-model.ts';
import type { ResolvedModel } from './models.ts';
import type { ProviderOptions } from './variants.ts';

type Warnings = Extract<LanguageModelStreamPart, { type: 'model-call-start' }>['warnings'];

const ARROW = ' → ';

/** Notices what a provider's package leaves out of a variant: it warns of it, or never reads it. */
export class VariantWatch {
  /** Of the call. */
  readonly options: ProviderOptions | undefined;
  private readonly model: ResolvedModel;
  /** Places such as `provider_options → openai → serviceTier`. */
  private readonly unread = new Set<string>();

  constructor(model: ResolvedModel) {
    this.model = model;
    const { providerOptions, variantOptions } = model;
    // A script has no provider.
    const isWatched = variantOptions !== undefined && !isScripted(model.model);
    this.options = isWatched ? this.watched(variantOptions, providerOptions, 'provider_options') : providerOptions;
  }

  /** @throws {PerdureError} `ModelNotConfigured`, naming what the provider has not taken of the variant */
  requireTaken(warnings: Warnings): void {
    if (this.model.variant === undefined) return;
    const refused = warnings.flatMap((each) => (each.type === 'unsupported' ? this.asked(each.feature) : []));
    const left = [...new Set([...refused, ...this.unread])];
    if (left.length === 0) return;
    const what = left.filter((place) => !left.some((outer) => place.startsWith(`${outer}${ARROW}`))).join(', ');
    throw this.notTaken(what);
  }

  /** For the package's refusal of an option's value what `requireTaken` throws; another error as it is. */
  refusalOf(error: unknown): unknown {
    const isOption = error instanceof Error && 'argument' in error && error.argument === 'providerOptions';
    return isOption && this.model.variant !== undefined ? this.notTaken(error.message) : error;
  }

  private notTaken(what: string): PerdureError {
    const { ref, variant } = this.model;
    const message = `the model "${ref}" does not take what its variant "${variant}" sets: ${what}`;
    return new PerdureError('ModelNotConfigured', message);
  }

  /** A copy of `all` in which each member that is in `own`, too, counts as unread until it is read. */
  private watched<T extends Record<string, Json>>(own: Record<string, Json>, all: T | undefined, place: string): T {
    const copy = { ...all } as T;
    for (const [key, value] of Object.entries(own)) {
      const [name, member] = [`${place}${ARROW}${key}`, copy[key]];
      const shown = isRecord(value) && isRecord(member) ? this.watched(value, member, name) : member;
      this.unread.add(name);
      const get = () => {
        this.unread.delete(name);
        return shown;
      };
      Object.defineProperty(copy, key, { enumerable: true, get });
    }
    return copy;
  }

  /** What of the variant a feature is, as the package calls it: `reasoning`, `providerOptions.anthropic.thinking`. */
  private asked(feature: string): string[] {
    const { reasoning, json, variantOptions = {} } = this.model;
    const name = feature.slice(feature.lastIndexOf('.') + 1);
    const key = Object.keys(variantOptions).find((each) => Object.hasOwn(variantOptions[each] ?? {}, name));
    if (key !== undefined) return [['provider_options', key, name].join(ARROW)];
    if (json && feature === 'responseFormat') return ['json'];
    return reasoning !== undefined && feature.startsWith('reasoning') ? ['reasoning'] : [];
  }
}

function isRecord(value: Json | undefined): value is Record<string, Json> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
