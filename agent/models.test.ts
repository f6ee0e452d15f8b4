import { describe, expect, it } from 'vitest';
import { createModels } from './models.ts';

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

  it('H5 a worker may add providers', () => {
    const mine = createModels({}).resolve('rehearsal/site-builder').model;
    const models = createModels({ providers: { mine: () => mine }, defaultModel: 'mine/one' });
    expect(models.resolve('mine/one').model).toBe(mine);
    expect(models.list()).toContain('mine/*');
  });
});
