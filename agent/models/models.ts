import './empty-base-urls.ts';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { PerdureError } from '../../domain/errors.ts';
import type { Modality, ModelInfo } from '../../domain/model-info.ts';
import { splitModelRef } from '../../domain/model-ref.ts';
import type { ModelObject } from '../model-object.ts';
import { providerFetch } from '../provider-stream/provider-fetch.ts';
import { REHEARSAL_MODEL, REHEARSAL_PROVIDER, rehearsalModel } from '../scripted/rehearsal-model.ts';
import { type CatalogEntries, infoOf, type KnownModel, ModelCatalog } from './model-catalog.ts';
import { checkedProviders, type CustomProviders, modelOfProvider } from './providers.ts';
import { type ProviderOptions, requireTakes, type Takes, type VariantCall, withVariant } from './variants.ts';

/** A model that can be called. Limits are in tokens. */
export interface ResolvedModel extends VariantCall {
  /** `provider/model`. */
  ref: string;
  model: ModelObject;
  /** Of input and output together. */
  contextLimit: number;
  /** The longest input. */
  maxInput: number;
  maxOutput: number;
  /** As the application's entry limits it, but half of the window at most: the provider is told so, unless the agent has a limit. */
  ownMaxOutput?: number;
  /** What it can take in; null: unknown. */
  modalities: readonly Modality[] | null;
  /** How long the provider may be silent in a call, in milliseconds. */
  idleMs: number;
}

/** The models that this process can call. */
export interface Models {
  /**
   * @param variant one of the model's variants
   * @throws {PerdureError} `ModelNotConfigured`, naming those that are configured
   */
  resolve(ref: string, variant?: string | null): ResolvedModel;
  /** What is known of a model that can be called. Limits of models in no catalog are the smallest of current models. */
  info(ref: string): ModelInfo;
  /** The application's entries of configured providers, and `provider/*` for each provider. */
  list(): string[];
  /** The models to choose from: of each configured provider the application's entries, or else the built-in ones. */
  offered(): ModelInfo[];
  /**
   * The model with the lowest tier among those of the same provider that are offered, and the model itself; of equals the one
   * with the longest input.
   */
  cheapest(ref: string): string;
  /** Whether a model may reason before an answer for which no variant is chosen. Anthropic's do so only on request. */
  reasons(ref: string): boolean;
  /** The default, `provider/model`. */
  readonly defaultRef: string;
}

export interface ModelSettings {
  openaiApiKey?: string | undefined;
  /** If set, provider `openai` uses the chat completions API of this server. */
  openaiBaseUrl?: string | undefined;
  anthropicApiKey?: string | undefined;
  anthropicBaseUrl?: string | undefined;
  /** `provider/model`. Unset: the catalog's first that can be called, else a provider's well-known one, else rehearsal. */
  defaultModel?: string | undefined;
  /** Limits of models, from PERDURE_MODELS; they come before the built-in ones. */
  catalog?: CatalogEntries;
  /** Additional providers, by name. */
  providers?: CustomProviders | undefined;
  /** How long a provider may be silent in a call, in milliseconds; default 120,000. */
  providerIdleMs?: number | undefined;
}

const MAX_RESOLVED = 1_000;

const WELL_KNOWN: Readonly<Record<string, string>> = { openai: 'gpt-5', anthropic: 'claude-sonnet-4-5' };

interface ProviderEntry {
  model: (id: string) => ModelObject;
  options?: ProviderOptions;
  /** Unset: unknown. */
  takes?: Takes;
  /** It is a server with models of its own: what the name stands for elsewhere need not be there. */
  isServer?: boolean;
}

/**
 * Creates the configured providers and the rehearsal model, which needs no key. Makes no request.
 * @throws {DefinitionError} naming an additional provider that is invalid, or what the provider of a variant does not take
 */
export function createModels(settings: ModelSettings): Models {
  const providers = providersOf(settings);
  const { providerIdleMs: idleMs = 120_000 } = settings;
  const entries = settings.catalog ?? {};
  const catalog = new ModelCatalog(entries);
  for (const [ref, { variants = {} }] of Object.entries(entries)) {
    const takes = providers.get(splitModelRef(ref).provider_id)?.takes;
    if (takes) requireTakes(ref, variants, takes);
  }
  const listed = [
    ...Object.keys(entries).filter((ref) => providers.has(splitModelRef(ref).provider_id)),
    ...[...providers.keys()].map((name) => (name === REHEARSAL_PROVIDER ? REHEARSAL_MODEL : `${name}/*`)),
  ];
  const offered = [...providers].flatMap(([name, { isServer = false }]) =>
    name === REHEARSAL_PROVIDER ? [REHEARSAL_MODEL] : catalog.offered(name, isServer),
  );
  const resolved = new Map<string, ResolvedModel>();
  const resolve: Models['resolve'] = (ref, variant = null) => {
    const key = JSON.stringify([ref, variant]);
    const known = resolved.get(key);
    if (known) return known;
    const made = make(ref, providers, catalog.find(ref)) ?? notConfigured(ref, listed);
    const own = Object.hasOwn(entries, ref) ? entries[ref]?.max_output : undefined;
    // Servers refuse a request whose input and largest output are longer than the window together.
    const ownMaxOutput = own === undefined ? {} : { ownMaxOutput: Math.min(own, Math.ceil(made.contextLimit / 2)) };
    const plain = { ...made, ...ownMaxOutput, idleMs };
    const model = variant === null ? plain : withVariant(plain, variant, catalog.find(ref).variants);
    // Requests name models, and a provider accepts any name.
    if (resolved.size >= MAX_RESOLVED) resolved.clear();
    resolved.set(key, model);
    return model;
  };
  return {
    resolve,
    info: (ref) => infoOf(catalog.find(resolve(ref).ref)),
    list: () => [...listed],
    offered: () => offered.map((ref) => infoOf(catalog.find(ref))),
    cheapest: (ref) => cheapestOf([ref, ...offered.filter((other) => isOfSameProvider(other, ref))], catalog),
    reasons: (ref) => reasonsUnasked(catalog.find(ref)),
    defaultRef: settings.defaultModel ?? defaultOf(settings, [...providers.keys()], listed),
  };
}

function reasonsUnasked({ model, variants }: KnownModel): boolean {
  if (splitModelRef(model).provider_id === 'anthropic') return false;
  return Object.values(variants).some(({ reasoning }) => reasoning !== undefined);
}

function isOfSameProvider(a: string, b: string): boolean {
  return splitModelRef(a).provider_id === splitModelRef(b).provider_id;
}

function cheapestOf(refs: readonly [string, ...string[]], catalog: ModelCatalog): string {
  const known = refs.map((ref) => catalog.find(ref));
  const rank = ({ tier }: KnownModel) => tier ?? Infinity;
  return known.reduce((best, one) => {
    const isCheaper = rank(one) < rank(best) || (rank(one) === rank(best) && one.max_input > best.max_input);
    return isCheaper && rank(one) < Infinity ? one : best;
  }).model;
}

function providersOf(settings: ModelSettings): Map<string, ProviderEntry> {
  const { openaiApiKey, openaiBaseUrl, anthropicApiKey, anthropicBaseUrl } = settings;
  const providers = new Map<string, ProviderEntry>();
  if (openaiBaseUrl) providers.set('openai', compatible(openaiBaseUrl, openaiApiKey));
  else if (openaiApiKey) providers.set('openai', openai(openaiApiKey));
  if (anthropicApiKey) {
    const provider = createAnthropic({
      apiKey: anthropicApiKey,
      fetch: providerFetch,
      ...(anthropicBaseUrl && { baseURL: anthropicBaseUrl }),
    });
    providers.set('anthropic', { model: (id) => provider(id), takes: { options: ['anthropic'], json: false } });
  }
  for (const [name, provider] of Object.entries(checkedProviders(settings.providers ?? {}, REHEARSAL_PROVIDER))) {
    providers.set(name, { model: (id) => modelOfProvider(name, provider, id) });
  }
  providers.set(REHEARSAL_PROVIDER, { model: () => rehearsalModel() });
  return providers;
}

function compatible(baseURL: string, apiKey: string | undefined): ProviderEntry {
  const provider = createOpenAICompatible({
    name: 'openai',
    baseURL,
    fetch: providerFetch,
    includeUsage: true,
    ...(apiKey && { apiKey }),
  });
  const takes = { options: ['openai', 'openaiCompatible'], json: true };
  return { model: (id) => provider.chatModel(id), takes, isServer: true };
}

function openai(apiKey: string): ProviderEntry {
  const provider = createOpenAI({ apiKey, fetch: providerFetch });
  // With `store`, later calls would refer to the provider's copies of earlier items, which have other tool call ids than
  // ours and expire after some weeks. Without it every call sends the whole conversation.
  const takes = { options: ['openai'], json: true };
  return { model: (id) => provider(id), options: { openai: { store: false } }, takes };
}

function make(
  ref: string,
  providers: ReadonlyMap<string, ProviderEntry>,
  known: KnownModel,
): Omit<ResolvedModel, 'idleMs'> | undefined {
  const { provider_id: name, model_id: id } = splitModelRef(ref);
  const provider = providers.get(name);
  if (!provider || id === '' || (name === REHEARSAL_PROVIDER && ref !== REHEARSAL_MODEL)) return undefined;
  return {
    ref,
    model: provider.model(id),
    contextLimit: known.context_limit,
    maxInput: known.max_input,
    maxOutput: known.max_output,
    modalities: known.modalities,
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
