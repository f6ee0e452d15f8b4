import { expect, it } from 'vitest';
import { splitModelRef } from './model-ref.ts';

it('X10 a reference is split at its first slash', () => {
  expect(splitModelRef('openai/gpt-5')).toEqual({ provider_id: 'openai', model_id: 'gpt-5' });
  expect(splitModelRef('router/meta/llama')).toEqual({ provider_id: 'router', model_id: 'meta/llama' });
  expect(splitModelRef('gpt-5')).toEqual({ provider_id: '', model_id: '' });
  expect(splitModelRef('/gpt-5')).toEqual({ provider_id: '', model_id: 'gpt-5' });
});
