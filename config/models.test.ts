import { expect, it } from 'vitest';
import { loadModels, parseModels } from './models.ts';

it('H1 PERDURE_MODELS is a JSON file of provider/model with its limits', () => {
  const models = parseModels('{ "openai/gpt-5": { "context_limit": 400000, "max_output": 128000 } }');
  expect(models['openai/gpt-5']).toEqual({ context_limit: 400_000, max_output: 128_000 });
  expect(parseModels('{ "openai/gpt-5": {} }')).toEqual({ 'openai/gpt-5': {} });
  const all = {
    ...{ context_limit: 9, max_input: 8, max_output: 1, tier: 2, modalities: ['text', 'pdf'], reasoning: true },
    variants: {
      deep: { reasoning: 'high', json: true, provider_options: { acme: { budget: 7, cached: true, mode: 'x' } } },
      paced: { provider_options: { acme: { thinking: { type: 'enabled', budgetTokens: 2_000 }, betas: ['x', null] } } },
    },
  };
  expect(parseModels(JSON.stringify({ 'acme/x': all }))).toEqual({ 'acme/x': all });
});

it.each([
  ['{', 'a file that holds JSON'],
  ['{"gpt": {"context_limit": 1, "max_output": 1}}', 'a name such as openai/gpt-5'],
  ['{"a/b": {"context_limit": "x", "max_output": 1}}', 'a/b → context_limit'],
  ['{"a/b": {"context_limit": 1, "max_output": 1, "price": 2}}', 'a/b'],
  ['{"a/b": {"tier": 0}}', 'a/b → tier: expected a whole number from 1'],
  ['{"a/b": {"modalities": ["smell"]}}', 'a/b → modalities → 0: expected any of text, image, pdf'],
  ['{"a/b": {"reasoning": "high"}}', 'a/b → reasoning: expected true or false'],
  ['{"a/b": {"variants": {"high": {"reasoning": "much"}}}}', 'high → reasoning: expected one of none, minimal, low'],
  ['{"a/b": {"variants": {"x": {"json": false}}}}', 'x → json: expected true'],
  [
    '{"a/b": {"variants": {"x": {"provider_options": {"a": 1}}}}}',
    'provider_options → a: expected options by provider',
  ],
  ['{"a/b": {"variants": 1}}', 'a/b → variants: expected variants by name'],
  ['{"a/b": {"variants": {"": {}}}}', 'a name of letters, digits'],
  [
    '{"a/b": {"variants": {"x": {"effort": 1}}}}',
    'a/b → variants → x: expected { reasoning?, json?, provider_options? } (Unrecognized key: "effort")',
  ],
])('H1 a bad PERDURE_MODELS file is named with what was expected: %s', (json, expected) => {
  expect(() => parseModels(json)).toThrow(expected);
});

it('H1 a missing PERDURE_MODELS file is named', () => {
  expect(loadModels(undefined)).toEqual({});
  expect(() => loadModels('/nowhere/models.json')).toThrow(/PERDURE_MODELS.*ENOENT.*models\.json/);
});
