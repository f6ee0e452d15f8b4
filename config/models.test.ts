import { expect, it } from 'vitest';
import { loadModels, parseModels } from './models.ts';

it('H1 PERDURE_MODELS is a JSON file of provider/model with its limits', () => {
  const models = parseModels('{ "openai/gpt-5": { "context_limit": 400000, "max_output": 128000 } }');
  expect(models['openai/gpt-5']).toEqual({ context_limit: 400_000, max_output: 128_000 });
  expect(parseModels('{ "openai/gpt-5": {} }')).toEqual({ 'openai/gpt-5': {} });
});

it.each([
  ['{', 'a file that holds JSON'],
  ['{"gpt": {"context_limit": 1, "max_output": 1}}', 'a name such as openai/gpt-5'],
  ['{"a/b": {"context_limit": "x", "max_output": 1}}', 'a/b → context_limit'],
  ['{"a/b": {"context_limit": 1, "max_output": 1, "price": 2}}', 'a/b'],
  ['{"a/b": {"tier": 2}}', 'a/b'],
])('H1 a bad PERDURE_MODELS file is named with what was expected: %s', (json, expected) => {
  expect(() => parseModels(json)).toThrow(expected);
});

it('H1 a missing PERDURE_MODELS file is named', () => {
  expect(loadModels(undefined)).toEqual({});
  expect(() => loadModels('/nowhere/models.json')).toThrow(/PERDURE_MODELS.*ENOENT.*models\.json/);
});
