import type { LanguageModelStreamPart } from 'ai';
import { PerdureError } from '../../domain/errors.ts';
import { isScripted } from '../scripted/script-model.ts';
import type { ResolvedModel } from './models.ts';
import type { ProviderOptions } from './variants.ts';

type Warnings = Extract<LanguageModelStreamPart, { type: 'model-call-start' }>['warnings'];

/** Notices what a provider's package leaves out of a variant: it warns of it, or never reads it. */
export class VariantWatch {
  /** Of the call. */
  readonly options: ProviderOptions | undefined;
  private readonly model: ResolvedModel;
  private readonly unread = new Set<string>();

  constructor(model: ResolvedModel) {
    this.model = model;
    this.options = model.providerOptions && { ...model.providerOptions };
    // A script has no provider.
    if (!isScripted(model.model)) for (const key of Object.keys(model.variantOptions ?? {})) this.watch(key);
  }

  /** @throws {PerdureError} `ModelNotConfigured`, naming what the provider has not taken of the variant */
  requireTaken(warnings: Warnings): void {
    const { ref, variant } = this.model;
    if (variant === undefined) return;
    const refused = warnings.flatMap((each) => (each.type === 'unsupported' ? this.asked(each.feature) : []));
    const left = [...refused, ...[...this.unread].map((key) => `provider_options → ${key}`)];
    if (left.length === 0) return;
    const what = [...new Set(left)].join(', ');
    throw new PerdureError(
      'ModelNotConfigured',
      `the model "${ref}" does not take what its variant "${variant}" sets: ${what}`,
    );
  }

  private watch(key: string): void {
    const value = this.options?.[key];
    this.unread.add(key);
    Object.defineProperty(this.options, key, {
      enumerable: true,
      get: () => {
        this.unread.delete(key);
        return value;
      },
    });
  }

  /** What of the variant a feature is, as the package calls it: `reasoning`, `providerOptions.anthropic.thinking`. */
  private asked(feature: string): string[] {
    const { reasoning, json, variantOptions = {} } = this.model;
    const name = feature.slice(feature.lastIndexOf('.') + 1);
    const key = Object.keys(variantOptions).find((each) => Object.hasOwn(variantOptions[each] ?? {}, name));
    if (key !== undefined) return [`provider_options → ${key} → ${name}`];
    if (json && feature === 'responseFormat') return ['json'];
    return reasoning !== undefined && feature.startsWith('reasoning') ? ['reasoning'] : [];
  }
}
