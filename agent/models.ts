import './empty-addresses.ts';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { PerdureError } from '../domain/errors.ts';
import type { ModelObject } from './model-object.ts';
import { REHEARSAL_MODEL, REHEARSAL_PROVIDER, rehearsalModel } from './rehearsal.ts';

/** A model that can be called. Limits are in tokens. */
export interface ResolvedModel {
  /** `provider/model`. */
  ref: string;
  model: ModelObject;
  contextLimit: number;
  maxOutput: number;
  /** Provider options of every call. */
  providerOptions?: ProviderOptions;
}

type ProviderOptions = Record<string, Record<string, string | boolean | number>>;

/** The models that this process can call. */
export interface Models {
  /** @throws {PerdureError} `ModelNotConfigured`, naming those that are configured */
  resolve(ref: string): ResolvedModel;
  /** The catalog's entries of configured providers, and `provider/*` for each provider. */
  list(): string[];
  /** The default, `provider/model`. */
  readonly defaultRef: string;
}

/** An entry of the model catalog, from PERDURE_MODELS. */
export interface CatalogEntry {
  context_limit?: number | undefined;
  max_output?: number | undefined;
}

export interface ModelSettings {
  openaiApiKey?: string | undefined;
  /** If set, provider `openai` uses the chat completions API of this server. */
  openaiBaseUrl?: string | undefined;
  anthropicApiKey?: string | undefined;
  anthropicBaseUrl?: string | undefined;
  /** `provider/model`. Unset: the catalog's first that can be called, else a provider's well-known one, else rehearsal. */
  defaultModel?: string | undefined;
  catalog?: Readonly<Record<string, CatalogEntry>>;
  /** Additional providers, by name. */
  providers?: Readonly<Record<string, (model: string) => ModelObject>>;
}

/** Limits of models that are not in the catalog: no current model has smaller ones. */
const UNKNOWN = { context_limit: 128_000, max_output: 8_192 };

const WELL_KNOWN: Readonly<Record<string, string>> = { openai: 'gpt-5', anthropic: 'claude-sonnet-4-5' };

interface ProviderEntry {
  model: (id: string) => ModelObject;
  options?: ProviderOptions;
}

/** Creates the configured providers and the rehearsal model, which needs no key. Makes no request. */
export function createModels(settings: ModelSettings): Models {
  const providers = providersOf(settings);
  const catalog = settings.catalog ?? {};
  const listed = [
    ...Object.keys(catalog).filter((ref) => providers.has(split(ref)?.[0] ?? '')),
    ...[...providers.keys()].map((name) => (name === REHEARSAL_PROVIDER ? REHEARSAL_MODEL : `${name}/*`)),
  ];
  const resolved = new Map<string, ResolvedModel>();
  const resolve = (ref: string): ResolvedModel => {
    const known = resolved.get(ref);
    if (known) return known;
    const model = make(ref, providers, catalog[ref] ?? UNKNOWN) ?? notConfigured(ref, listed);
    resolved.set(ref, model);
    return model;
  };
  const defaultRef = settings.defaultModel ?? defaultOf(settings, [...providers.keys()], listed);
  return { resolve, list: () => [...listed], defaultRef };
}

function providersOf(settings: ModelSettings): Map<string, ProviderEntry> {
  const { openaiApiKey, openaiBaseUrl, anthropicApiKey, anthropicBaseUrl } = settings;
  const providers = new Map<string, ProviderEntry>();
  if (openaiBaseUrl) providers.set('openai', compatible(openaiBaseUrl, openaiApiKey));
  else if (openaiApiKey) providers.set('openai', openai(openaiApiKey));
  if (anthropicApiKey) {
    const provider = createAnthropic({
      apiKey: anthropicApiKey,
      ...(anthropicBaseUrl && { baseURL: anthropicBaseUrl }),
    });
    providers.set('anthropic', { model: (id) => provider(id) });
  }
  for (const [name, model] of Object.entries(settings.providers ?? {})) providers.set(name, { model });
  providers.set(REHEARSAL_PROVIDER, { model: () => rehearsalModel() });
  return providers;
}

function compatible(baseURL: string, apiKey: string | undefined): ProviderEntry {
  const provider = createOpenAICompatible({ name: 'openai', baseURL, includeUsage: true, ...(apiKey && { apiKey }) });
  return { model: (id) => provider.chatModel(id) };
}

function openai(apiKey: string): ProviderEntry {
  const provider = createOpenAI({ apiKey });
  // With `store`, later calls would refer to the provider's copies of earlier items, which have other tool call ids than
  // ours and expire after some weeks. Without it every call sends the whole conversation.
  return { model: (id) => provider(id), options: { openai: { store: false } } };
}

function split(ref: string): [provider: string, model: string] | undefined {
  const slash = ref.indexOf('/');
  return slash > 0 && slash < ref.length - 1 ? [ref.slice(0, slash), ref.slice(slash + 1)] : undefined;
}

function make(
  ref: string,
  providers: ReadonlyMap<string, ProviderEntry>,
  known: CatalogEntry,
): ResolvedModel | undefined {
  const [name = '', id = ''] = split(ref) ?? [];
  const provider = providers.get(name);
  if (!provider || (name === REHEARSAL_PROVIDER && ref !== REHEARSAL_MODEL)) return undefined;
  return {
    ref,
    model: provider.model(id),
    contextLimit: known.context_limit ?? UNKNOWN.context_limit,
    maxOutput: known.max_output ?? UNKNOWN.max_output,
    ...(provider.options && { providerOptions: provider.options }),
  };
}

function notConfigured(ref: string, listed: readonly string[]): never {
  throw new PerdureError(
    'ModelNotConfigured',
    `the model "${ref}" is not configured; configured: ${listed.join(', ')}`,
  );
}

function defaultOf(settings: ModelSettings, providers: readonly string[], listed: readonly string[]): string {
  const first = providers.find((name) => name !== REHEARSAL_PROVIDER);
  if (first === undefined) return REHEARSAL_MODEL;
  const inCatalog = Object.keys(settings.catalog ?? {}).find((ref) => listed.includes(ref));
  if (inCatalog) return inCatalog;
  const known = WELL_KNOWN[first];
  return known ? `${first}/${known}` : REHEARSAL_MODEL;
}
