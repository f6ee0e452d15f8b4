import { expect, it } from 'vitest';
import generated from '../../agent/models/model-catalog.generated.json' with { type: 'json' };
import { catalogFrom, catalogText, PROVIDERS, type Source } from './model-catalog.ts';

const model = {
  tool_call: true,
  modalities: { input: ['text'], output: ['text'] },
  limit: { context: 100, output: 200 },
  cost: { output: 1 },
};

function source(models: Source[string]['models']): Source {
  const others = Object.fromEntries(PROVIDERS.map((name) => [name, { models: { some: model } }]));
  return { ...others, openai: { models }, unused: { models: { x: model } } };
}

it('X10 the catalog has the models that call tools and answer in text, with their limits', () => {
  const picture = { modalities: { input: ['text', 'image'], output: ['text'] } };
  const entries = catalogFrom(
    source({
      plain: model,
      'big-pro': {
        ...model,
        ...picture,
        reasoning: true,
        limit: { context: 9, input: 5, output: 4 },
        cost: { output: 50 },
      },
      thinks: { ...model, reasoning: true, cost: { output: 7 }, status: 'deprecated' },
      free: { ...model, cost: { output: 0 } },
      silent: { ...model, tool_call: false },
      painter: { ...model, modalities: { input: ['text'], output: ['text', 'image'] } },
      limitless: { ...model, limit: { context: 0, output: 0 } },
    }),
  );
  const ofOpenai = Object.fromEntries(Object.entries(entries).filter(([ref]) => ref.startsWith('openai/')));
  const plain = { context_limit: 100, max_output: 100, modalities: ['text'] };
  expect(ofOpenai).toEqual({
    'openai/big-pro': { context_limit: 9, max_input: 5, max_output: 4, tier: 4, modalities: ['text', 'image', 'pdf'] },
    'openai/free': plain,
    'openai/plain': { ...plain, tier: 1 },
    'openai/thinks': { ...plain, tier: 2, reasoning: true, deprecated: true },
  });
  expect(Object.keys(entries)).not.toContain('unused/x');
  expect(JSON.parse(catalogText(entries, { date: 'd' }))).toEqual({ date: 'd', models: entries });
});

it('X10 a window that needs a beta header is the one without it, also in the catalog of the package', () => {
  const claude = { ...model, limit: { context: 1_000_000, output: 64_000 } };
  const id = 'claude-sonnet-4-5';
  const made = catalogFrom({
    ...source({ plain: model }),
    anthropic: { models: { [id]: claude, 'claude-other': claude } },
  });
  expect(made[`anthropic/${id}`]?.context_limit).toBe(200_000);
  expect(made['anthropic/claude-other']?.context_limit).toBe(1_000_000);
  const { context_limit, max_output } = generated.models[`anthropic/${id}`];
  expect([context_limit, max_output]).toEqual([200_000, 64_000]);
  expect(generated.models[`anthropic/${id}-20250929`].context_limit).toBe(200_000);
});

it('X10 a source without a provider is refused, because all of its models would disappear', () => {
  expect(() => catalogFrom(source({}))).toThrow('no models of the provider "openai"');
});
