import type { LanguageModel } from 'ai';
import { resolveLanguageModel } from 'ai/internal';
import { PerdureError } from '../../domain/errors.ts';
import { DefinitionError } from '../definition/define.ts';
import { importDefault } from '../loading/import-default.ts';
import type { ModelObject } from '../model-object.ts';

/** A model object of the AI SDK, of any version of its specification. */
type AnyModel = Exclude<LanguageModel, string>;

/** A provider of the AI SDK, as `createOpenAI` and `customProvider` return. */
interface ProviderObject {
  languageModel(model: string): AnyModel;
}

/** A provider of the application: creates a model by its name, which is what follows the slash in `provider/model`. */
export type CustomProvider = ProviderObject | ((model: string) => AnyModel | ProviderObject);

/** Providers by name. */
export type CustomProviders = Readonly<Record<string, CustomProvider>>;

/** Without "/", which ends it in `provider/model`. */
const NAME = /^[^/\s]+$/;
const EXPECTED = 'a function of the model’s name that returns a model of the AI SDK, or a provider of the AI SDK';

/**
 * The providers of a module whose default export is `{ name: (model) => model or provider }`; none without a module.
 *
 * @param modulePath absolute path of the module, as PERDURE_PROVIDERS names it
 * @throws {DefinitionError} if the module cannot be loaded or has another default export
 */
export async function loadProviders(modulePath: string | undefined): Promise<CustomProviders> {
  if (modulePath === undefined) return {};
  const exported = await importDefault(modulePath);
  if (typeof exported !== 'object' || exported === null || Array.isArray(exported)) {
    throw new DefinitionError(`${modulePath}: expected { name: (model) => model or provider } as the default export`);
  }
  try {
    return checkedProviders(exported as CustomProviders);
  } catch (error) {
    throw new DefinitionError(`${modulePath}: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * The providers, unchanged.
 * @param reserved a name that no provider may have
 * @throws {DefinitionError} naming one that is invalid
 */
export function checkedProviders(providers: CustomProviders, reserved?: string): CustomProviders {
  for (const [name, provider] of Object.entries(providers)) {
    if (!NAME.test(name)) throw new DefinitionError(`provider "${name}": expected a name without "/" and spaces`);
    if (name === reserved) throw new DefinitionError(`provider "${name}": expected another name, this one is taken`);
    if (typeof provider !== 'function' && !isProvider(provider)) {
      throw new DefinitionError(`provider "${name}": expected ${EXPECTED}`);
    }
  }
  return providers;
}

/**
 * A provider's model.
 * @throws {PerdureError} `ModelNotConfigured` if the provider throws or returns something else; `cause` says why
 */
export function modelOfProvider(name: string, provider: CustomProvider, id: string): ModelObject {
  try {
    const made: unknown = typeof provider === 'function' ? provider(id) : provider.languageModel(id);
    const model: unknown = isProvider(made) ? made.languageModel(id) : made;
    if (isModel(model)) return resolveLanguageModel(model);
  } catch (cause) {
    throw new PerdureError('ModelNotConfigured', `the provider "${name}" has no model "${id}"`, { cause });
  }
  throw new PerdureError('ModelNotConfigured', `the provider "${name}" is not usable: expected ${EXPECTED}`);
}

function isProvider(value: unknown): value is ProviderObject {
  return isObject(value) && 'languageModel' in value && typeof value.languageModel === 'function';
}

function isModel(value: unknown): value is AnyModel {
  return isObject(value) && 'doStream' in value && typeof value.doStream === 'function';
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
