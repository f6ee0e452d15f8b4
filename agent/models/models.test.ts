import { describe, expect, it } from 'vitest';
import { createModels, type ModelSettings } from './models.ts';

const catalog = {
  'openai/small': { context_limit: 9_000, max_output: 900 },
  'other/x': { context_limit: 1, max_output: 1 },
};

describe('models', () => {
  it('H6 without a key the default is the rehearsal model', () => {
    const models = createModels({});
    expect([models.defaultRef, models.list()]).toEqual(['rehearsal/site-builder', ['rehearsal/site-builder']]);
    expect(models.resolve(models.defaultRef).model.provider).toBe('rehearsal');
  });

  it('H1 with a base URL only, openai uses the chat completions API and the catalog’s limits', () => {
    const models = createModels({ openaiBaseUrl: 'http://127.0.0.1:9/v1', catalog });
    expect(models.resolve('openai/small')).toMatchObject({ ref: 'openai/small', contextLimit: 9_000, maxOutput: 900 });
    expect(models.resolve('openai/a/b').model.modelId).toBe('a/b');
    expect(models.defaultRef).toBe('openai/small');
    expect(models.list()).toEqual(['openai/small', 'openai/*', 'rehearsal/site-builder']);
  });

  it('H1 PERDURE_MODEL is the default whatever else is configured', () => {
    const settings = { openaiApiKey: 'k', anthropicApiKey: 'k' };
    expect(createModels({ ...settings, defaultModel: 'anthropic/x' }).defaultRef).toBe('anthropic/x');
    expect(createModels(settings).defaultRef).toMatch(/^openai\//);
    expect(createModels({ anthropicApiKey: 'k' }).defaultRef).toMatch(/^anthropic\//);
  });

  it('X10 a model that is not configured is ModelNotConfigured, naming the configured ones', () => {
    const models = createModels({ openaiApiKey: 'k', catalog });
    for (const ref of ['other/x', 'openai', 'openai/', '/x', '', 'rehearsal/other']) {
      expect(() => models.resolve(ref)).toThrow(
        expect.objectContaining({
          code: 'ModelNotConfigured',
          message: `the model "${ref}" is not configured; configured: openai/small, openai/*, rehearsal/site-builder`,
        }),
      );
    }
  });

  it('X10 the models of common providers have their limits, which PERDURE_MODELS overrides field by field', () => {
    const own = { 'openai/gpt-5': { max_output: 1_000 }, 'anthropic/claude-haiku-4-5': { context_limit: 90_000 } };
    const models = createModels({ openaiApiKey: 'k', anthropicApiKey: 'k', catalog: own });
    const gpt5 = { context_limit: 400_000, max_input: 272_000, modalities: ['text', 'image', 'pdf'], tier: 3 };
    expect(models.info('openai/gpt-5')).toMatchObject({
      ...gpt5,
      max_output: 1_000,
      variants: ['low', 'medium', 'high'],
    });
    expect(models.info('anthropic/claude-haiku-4-5')).toMatchObject({
      context_limit: 90_000,
      max_input: 90_000,
      tier: 2,
    });
    expect(models.resolve('openai/gpt-5')).toMatchObject({
      contextLimit: 400_000,
      maxInput: 272_000,
      maxOutput: 1_000,
    });
    const unknown = { context_limit: 128_000, max_input: 128_000, max_output: 8_192, tier: null, modalities: null };
    expect(models.info('openai/gpt-99')).toEqual({ model: 'openai/gpt-99', ...unknown, variants: [] });
    expect(() => models.info('other/x')).toThrow(/"other\/x" is not configured/);
  });

  it('X10 an answer that may be as long as the window leaves half of it to the input in a request', () => {
    const whole = { 'openai/local': { context_limit: 32_000, max_output: 32_000 } };
    const models = createModels({ openaiApiKey: 'k', catalog: whole });
    expect(models.resolve('openai/local')).toMatchObject({ maxOutput: 32_000, ownMaxOutput: 16_000 });
  });

  it('X10 the built-in models of configured providers are offered, or else the entries of PERDURE_MODELS', () => {
    const offered = (settings: ModelSettings) =>
      createModels(settings)
        .offered()
        .map(({ model }) => model);
    expect(offered({})).toEqual(['rehearsal/site-builder']);
    const both = offered({ openaiApiKey: 'k', anthropicApiKey: 'k' });
    expect(both).toEqual(
      expect.arrayContaining(['openai/gpt-5', 'anthropic/claude-haiku-4-5', 'rehearsal/site-builder']),
    );
    // Its limits are known, for sessions that still use it.
    expect(both).not.toContain('openai/gpt-4-turbo');
    expect(createModels({ openaiApiKey: 'k' }).info('openai/gpt-4-turbo').max_output).toBe(4_096);
    const some = offered({ openaiApiKey: 'k', anthropicApiKey: 'k', catalog });
    expect(some.filter((ref) => !ref.startsWith('anthropic/'))).toEqual(['openai/small', 'rehearsal/site-builder']);
    expect(some).toContain('anthropic/claude-haiku-4-5');
    // A compatible server need not have OpenAI's models.
    expect(offered({ openaiBaseUrl: 'http://127.0.0.1:9/v1' })).toEqual(['rehearsal/site-builder']);
  });

  it('X7 the cheapest model of a provider is the one with the lowest tier, of equals with the longest input', () => {
    const settings = { openaiApiKey: 'k', anthropicApiKey: 'k' };
    const cheapest = (refs: NonNullable<ModelSettings['catalog']>) =>
      createModels({ ...settings, catalog: refs }).cheapest('openai/gpt-5');
    expect(createModels(settings).cheapest('anthropic/claude-opus-4-5')).toBe('anthropic/claude-haiku-4-5');
    expect(createModels(settings).info(cheapest({}))).toMatchObject({ tier: 1, max_input: 1_047_576 });
    expect(cheapest({ 'openai/a': { tier: 2 }, 'openai/b': { tier: 2, context_limit: 200_000 } })).toBe('openai/b');
    expect(cheapest({ 'openai/a': { tier: 9 } })).toBe('openai/gpt-5');
    expect(cheapest({ 'openai/a': {} })).toBe('openai/gpt-5');
    expect(createModels({ openaiBaseUrl: 'http://127.0.0.1:9/v1' }).cheapest('openai/mine')).toBe('openai/mine');
  });

  it('X7 a model with levels of reasoning may reason unasked, but not those of Anthropic', () => {
    const variants = { fast: { provider_options: { openai: { serviceTier: 'priority' } } } };
    const own = { 'openai/plain': {}, 'openai/other': { variants } };
    const models = createModels({ openaiApiKey: 'k', anthropicApiKey: 'k', catalog: own });
    expect(models.reasons('openai/gpt-5')).toBe(true);
    for (const ref of ['openai/plain', 'openai/other', 'anthropic/claude-haiku-4-5'])
      expect(models.reasons(ref)).toBe(false);
    expect(models.info('anthropic/claude-haiku-4-5').variants).not.toEqual([]);
  });

  it('X10 a variant adds its reasoning and provider options; one that does not exist is refused', () => {
    const variants = {
      fast: { reasoning: 'minimal', provider_options: { openai: { serviceTier: 'priority' } } },
    } as const;
    const models = createModels({ openaiApiKey: 'k', catalog: { 'openai/mine': { variants } } });
    const plain = { openai: { store: false } };
    expect(models.resolve('openai/mine', 'fast')).toMatchObject({
      reasoning: 'minimal',
      providerOptions: { openai: { store: false, serviceTier: 'priority' } },
    });
    expect(models.resolve('openai/mine')).toMatchObject({ providerOptions: plain });
    expect(models.resolve('openai/mine')).not.toHaveProperty('reasoning');
    expect(models.resolve('openai/gpt-5', 'high')).toMatchObject({ reasoning: 'high', providerOptions: plain });
    const refused = (ref: string, variant: string) => () => models.resolve(ref, variant);
    expect(refused('openai/gpt-5', 'huge')).toThrow('has no variant "huge"; variants: low, medium, high');
    expect(refused('openai/gpt-4.1', 'high')).toThrow('has no variant "high"; it has no variants');
    expect(refused('openai/mine', 'constructor')).toThrow('has no variant "constructor"');
  });

  it.each([
    ['openai/mine', { provider_options: { anthropic: {} } }, 'provider_options → anthropic: expected "openai", the'],
    ['anthropic/mine', { provider_options: { openai: {} } }, 'provider_options → openai: expected "anthropic", the'],
    ['anthropic/mine', { json: true }, 'json: expected nothing, its provider has no JSON mode'],
  ] as const)('X10 a variant of %s that its provider does not take is named: %o', (ref, variant, expected) => {
    const odd = { [ref]: { variants: { odd: variant } } };
    const message = `PERDURE_MODELS → ${ref} → variants → odd → ${expected}`;
    expect(() => createModels({ openaiApiKey: 'k', anthropicApiKey: 'k', catalog: odd })).toThrow(message);
    // Another provider may have that name.
    const providers = {
      [ref.slice(0, ref.indexOf('/'))]: () => createModels({}).resolve('rehearsal/site-builder').model,
    };
    expect(createModels({ catalog: odd, providers }).info(ref).variants).toEqual(['odd']);
  });

  it('H5 a worker may add providers', () => {
    const mine = createModels({}).resolve('rehearsal/site-builder').model;
    const models = createModels({ providers: { mine: () => mine }, defaultModel: 'mine/one' });
    expect(models.resolve('mine/one').model).toBe(mine);
    expect(models.list()).toContain('mine/*');
  });
});
