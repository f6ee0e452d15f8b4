// Variants of models, as the providers' packages send them.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createModels, type ModelSettings } from '../../agent/models/models.ts';
import { classifyProviderError } from '../../agent/provider-failures/classify-provider-error.ts';
import { streamModelCall } from '../../agent/step/stream-model-call.ts';
import { PerdureError } from '../../domain/errors.ts';
import { type EventServer, startEventServer } from '../../tools/test-kit/event-server.ts';
import { collect, hello } from './step-play.ts';

let server: EventServer;

beforeEach(async () => {
  server = await startEventServer();
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
});

const variants = {
  paced: { provider_options: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2_000 } } } },
  hard: { reasoning: 'high' },
  data: { json: true },
  both: { reasoning: 'low', provider_options: { openai: { reasoningSummary: null, serviceTier: 'flex' } } },
  forced: { reasoning: 'high', provider_options: { openai: { forceReasoning: true } } },
  still: { reasoning: 'none' },
  aliased: { provider_options: { openaiCompatible: { user: 'ada' } } },
  other: { provider_options: { elsewhere: { depth: 3 } } },
  odd: { provider_options: { anthropic: { thinking: { type: 'enabled', budgetTokens: 'many' } } } },
  misspelt: { provider_options: { anthropic: { efort: 'low', thinking: { type: 'disabled', budgetToken: 1 } } } },
} as const;
const { paced, hard, data, both, forced, still, aliased } = variants;
const acme = () => createOpenAICompatible({ name: 'acme', baseURL: server.url });
const claude = () => createAnthropic({ apiKey: 'k', baseURL: server.url });
const call = async (ref: string, variant: string, catalog: NonNullable<ModelSettings['catalog']> = {}) => {
  vi.stubEnv('OPENAI_BASE_URL', server.url);
  const models = createModels({
    ...(ref.startsWith('openai/local') ? { openaiBaseUrl: server.url } : { openaiApiKey: 'k' }),
    ...{ anthropicApiKey: 'k', anthropicBaseUrl: server.url, catalog },
    providers: { acme: acme(), claude: claude() },
  });
  const signal = new AbortController().signal;
  const given = { system: '', messages: hello, tools: [], signal, newToolCallId: () => 'call' };
  const { error } = await collect(streamModelCall({ ...given, model: models.resolve(ref, variant) }));
  return { error, body: server.requests.at(-1) };
};
const SUMMARIZED = { type: 'adaptive', display: 'summarized' };
const effort = (level: string, summary?: string) => ({ reasoning: { effort: level, ...(summary && { summary }) } });

it.each<[string, string, string, NonNullable<ModelSettings['catalog']>, object]>([
  // A share of the model's 64,000 tokens, which are its limit already.
  ['a budget', 'anthropic/claude-haiku-4-5', 'high', {}, { thinking: { type: 'enabled', budget_tokens: 38_400 } }],
  [
    'an effort',
    'anthropic/claude-opus-4-6',
    'medium',
    {},
    { thinking: SUMMARIZED, output_config: { effort: 'medium' } },
  ],
  ['an effort', 'openai/gpt-5', 'high', {}, effort('high', 'detailed')],
  ['an effort', 'openai/local', 'hard', { 'openai/local': { variants: { hard } } }, { reasoning_effort: 'high' }],
  ['no effort', 'openai/gpt-5.1', 'still', { 'openai/gpt-5.1': { variants: { still } } }, effort('none')],
  [
    'an effort',
    'openai/unheard-of',
    'forced',
    { 'openai/unheard-of': { variants: { forced } } },
    effort('high', 'detailed'),
  ],
  ['options', 'openai/local', 'aliased', { 'openai/local': { variants: { aliased } } }, { user: 'ada' }],
  [
    'a budget of its own',
    'anthropic/claude-haiku-4-5',
    'paced',
    { 'anthropic/claude-haiku-4-5': { max_output: 9_000, variants: { paced } } },
    { thinking: { type: 'enabled', budget_tokens: 2_000 } },
  ],
  [
    'options',
    'openai/gpt-5',
    'both',
    { 'openai/gpt-5': { variants: { both } } },
    { ...effort('low'), service_tier: 'flex' },
  ],
  [
    'JSON',
    'openai/gpt-5',
    'data',
    { 'openai/gpt-5': { variants: { data } } },
    { text: { format: { type: 'json_object' } } },
  ],
  [
    'JSON',
    'openai/local',
    'data',
    { 'openai/local': { variants: { data } } },
    { response_format: { type: 'json_object' } },
  ],
  ['JSON', 'acme/x', 'data', { 'acme/x': { variants: { data } } }, { response_format: { type: 'json_object' } }],
])('X10 %s reaches the provider in its own option: %s %s', async (_what, ref, variant, catalog, sent) => {
  const { error, body } = await call(ref, variant, catalog);
  expect(error).not.toBeInstanceOf(PerdureError);
  expect(Object.fromEntries(Object.keys(sent).map((key) => [key, body?.[key]]))).toEqual(sent);
});

it.each<[string, keyof typeof variants, string]>([
  ['openai/gpt-4.1', 'hard', 'reasoning'],
  ['openai/unheard-of', 'hard', 'reasoning'],
  ['claude/claude-opus-5-5', 'paced', 'provider_options → anthropic → thinking'],
  ['claude/claude-haiku-4-5', 'data', 'json'],
  ['claude/claude-haiku-4-5', 'other', 'provider_options → elsewhere'],
  ['acme/x', 'other', 'provider_options → elsewhere'],
  ['anthropic/claude-haiku-4-5', 'odd', 'invalid anthropic provider options'],
  [
    'claude/claude-haiku-4-5',
    'misspelt',
    'provider_options → anthropic → efort, provider_options → anthropic → thinking → budgetToken',
  ],
])('X10 what a variant of %s asks for in vain is refused by name: %s', async (ref, name, what) => {
  const { error } = await call(ref, name, { [ref]: { variants: { [name]: variants[name] } } });
  expect(classifyProviderError(error)).toMatchObject({
    code: 'ModelNotConfigured',
    message: expect.stringContaining(`"${ref}" does not take what its variant "${name}" sets: ${what}. Choose`),
  });
});

it('X10 the rehearsal model, which has no provider, takes any variant', async () => {
  const ref = 'rehearsal/site-builder';
  const { error } = await call(ref, 'other', { [ref]: { variants: { other: variants.other } } });
  expect(error).toBeUndefined();
});

it('X10 what a variant asks of a custom provider under its own name is taken', async () => {
  const own = { provider_options: { acme: { depth: { most: 3 } } } };
  const { error, body } = await call('acme/x', 'own', { 'acme/x': { variants: { own } } });
  expect([error instanceof PerdureError, body?.['depth']]).toEqual([false, { most: 3 }]);
});
