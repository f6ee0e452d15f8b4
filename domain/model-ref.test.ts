import { expect, it } from 'vitest';
import { splitModel } from './model-ref.ts';

it('X10 a reference is split at its first slash', () => {
  expect(splitModel('openai/gpt-5')).toEqual({ provider_id: 'openai', model_id: 'gpt-5' });
  expect(splitModel('router/meta/llama')).toEqual({ provider_id: 'router', model_id: 'meta/llama' });
  expect(splitModel('gpt-5')).toEqual({ provider_id: '', model_id: '' });
  expect(splitModel('/gpt-5')).toEqual({ provider_id: '', model_id: 'gpt-5' });
});
