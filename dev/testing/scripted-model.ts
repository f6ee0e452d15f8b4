import { MockLanguageModelV4 } from 'ai/test';
import { replyOf, type Script } from '../../agent/models/script-provider.ts';
import { scriptModel } from '../../agent/scripted/script-model.ts';

/**
 * A model that answers as the script says: a mock of the AI SDK, whose `doStreamCalls` are the calls that it received. It
 * depends on the prompt alone: each turn begins with the script's first step, also after a crash.
 */
export function scriptedModel(script: Script): MockLanguageModelV4 {
  const name = { provider: 'script', modelId: 'test' };
  const scripted = scriptModel({
    ...name,
    replyTo: (options) => replyOf(script, options),
    delayMs: 0,
  });
  return new MockLanguageModelV4({
    ...name,
    doStream: async (options) => scripted.doStream(options),
    doGenerate: async (options) => scripted.doGenerate(options),
  });
}
