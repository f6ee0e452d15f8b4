import { MODALITIES, type Modality } from '../../domain/model-info.ts';

/** The fields of models.dev's `api.json` that are read here. Prices are in dollars for a million tokens. */
interface SourceModel {
  reasoning?: boolean;
  tool_call?: boolean;
  status?: string;
  modalities?: { input?: string[]; output?: string[] };
  limit?: { context?: number; input?: number; output?: number };
  cost?: { output?: number };
}
export type Source = Record<string, { models: Record<string, SourceModel> }>;

/** An entry of `agent/models/model-catalog.generated.json`; the fields are those of PERDURE_MODELS. */
export interface Entry {
  context_limit: number;
  max_input?: number;
  max_output: number;
  tier?: number;
  modalities: Modality[];
  reasoning?: true;
  deprecated?: true;
}

/** Providers that have packages of the AI SDK and models with the same names everywhere. */
export const PROVIDERS = ['anthropic', 'cohere', 'deepseek', 'google', 'groq', 'mistral', 'openai', 'xai'];

/** Windows that the source has with a beta header of the provider, which nobody here sends: without it a longer request is refused. */
const WITHOUT_BETA: Readonly<Record<string, number>> = {
  'anthropic/claude-sonnet-4-5': 200_000,
  'anthropic/claude-sonnet-4-5-20250929': 200_000,
};

/** Upper bounds of the tiers' prices of output. Without prices in the catalog, tiers tell cheap models from others. */
const TIERS = [2, 8, 20];

/**
 * The models for agents: those that call tools, answer in text and have limits.
 * @throws {Error} naming a provider that the source does not have, because its models would disappear
 */
export function catalogFrom(source: Source): Record<string, Entry> {
  const entries = PROVIDERS.flatMap((provider) => {
    const models = Object.entries(source[provider]?.models ?? {});
    const usable = models.flatMap(([id, model]) => {
      const entry = entryOf(provider, id, model);
      return entry === undefined ? [] : [[`${provider}/${id}`, entry] as const];
    });
    if (usable.length === 0) throw new Error(`the source has no models of the provider "${provider}"`);
    return usable;
  });
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function entryOf(provider: string, id: string, given: SourceModel): Entry | undefined {
  const { limit, modalities, cost, ...model } = given;
  const { input, output = 0 } = limit ?? {};
  const context = Math.min(limit?.context ?? 0, WITHOUT_BETA[`${provider}/${id}`] ?? Infinity);
  const isText = modalities?.input?.includes('text') === true && modalities.output?.join() === 'text';
  if (!isText || !model.tool_call || context <= 0 || output <= 0) return undefined;
  const tier = tierOf(cost?.output);
  return {
    context_limit: context,
    ...(input !== undefined && input < context && { max_input: input }),
    // Some entries have the whole window as the output's limit.
    max_output: Math.min(output, context),
    ...(tier !== undefined && { tier }),
    modalities: MODALITIES.filter((one) => modalities.input?.includes(one) || readsAsImages(provider, one, modalities)),
    ...(model.reasoning === true && hasLevels(provider, id) && { reasoning: true }),
    ...(model.status === 'deprecated' && { deprecated: true }),
  };
}

/** Whether its reasoning can be low, medium or high. The source does not say so; others reason always in the same way. */
function hasLevels(provider: string, id: string): boolean {
  if (provider === 'openai') return !/-(?:pro|chat-latest)$/.test(id);
  return provider === 'anthropic' || provider === 'google';
}

/** OpenAI's guide "PDF files": its models that take images take PDFs, whose pages it turns into images. */
function readsAsImages(provider: string, modality: Modality, { input }: { input?: string[] }): boolean {
  return provider === 'openai' && modality === 'pdf' && input?.includes('image') === true;
}

function tierOf(price: number | undefined): number | undefined {
  if (price === undefined || price <= 0) return undefined;
  const at = TIERS.findIndex((bound) => price < bound);
  return at === -1 ? TIERS.length + 1 : at + 1;
}

/** The file's text: a line for each model, so that a change of one is a change of one line. */
export function catalogText(entries: Record<string, Entry>, about: Record<string, unknown>): string {
  const lines = Object.entries(entries).map(([ref, entry]) => `${JSON.stringify(ref)}: ${JSON.stringify(entry)}`);
  const head = Object.entries(about).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  return `{\n${head.join('')}"models": {\n${lines.join(',\n')}\n}\n}\n`;
}
