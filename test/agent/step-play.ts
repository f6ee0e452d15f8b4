// Runs one step against a scripted provider, for the tests in this folder.
import type { UIMessage, UIMessageChunk } from 'ai';
import { z } from 'zod';
import { defineTool } from '../../agent/definition/define.ts';
import { createModels } from '../../agent/models/models.ts';
import { type StepInput, type StepResult, streamModelCall } from '../../agent/step/stream-model-call.ts';
import { type ModelScript, type ModelServer, startModelServer } from '../../tools/test-kit/model-server.ts';

export const writeFile = defineTool({
  name: 'write_file',
  description: 'Writes a file.',
  input: z.object({ path: z.string(), content: z.string().optional() }),
  execute: () => null,
});

export const hello: UIMessage[] = [{ id: 'msg_1', role: 'user', parts: [{ type: 'text', text: 'hello' }] }];

type Step = AsyncGenerator<UIMessageChunk, StepResult, void>;

/** The chunks of a step, and how it ended. */
export interface Played {
  chunks: UIMessageChunk[];
  result: StepResult | undefined;
  error: unknown;
}

export class StepPlay {
  readonly server: ModelServer;
  private calls = 0;

  constructor(server: ModelServer) {
    this.server = server;
  }

  static async start(): Promise<StepPlay> {
    return new StepPlay(await startModelServer(() => []));
  }

  /** A step of the scripted model; tool calls are `call_ours_1`, `call_ours_2`, … */
  step(script: ModelScript, more: Partial<StepInput> = {}): Step {
    this.server.script(script);
    this.calls = 0;
    const models = createModels({ openaiBaseUrl: this.server.url, openaiApiKey: 'sk-test' });
    return streamModelCall({
      model: models.resolve('openai/test'),
      system: 'Be kind.',
      messages: hello,
      tools: [writeFile],
      signal: new AbortController().signal,
      newToolCallId: () => `call_ours_${++this.calls}`,
      ...more,
    });
  }

  play(script: ModelScript, more: Partial<StepInput> = {}): Promise<Played> {
    return collect(this.step(script, more));
  }
}

export async function collect(step: Step): Promise<Played> {
  const chunks: UIMessageChunk[] = [];
  try {
    for (;;) {
      const next = await step.next();
      if (next.done) return { chunks, result: next.value, error: undefined };
      chunks.push(next.value);
    }
  } catch (error) {
    return { chunks, result: undefined, error };
  }
}

/** Reads until a chunk of this type has come. */
export async function readUntil(step: Step, type: UIMessageChunk['type']): Promise<void> {
  for (;;) {
    const next = await step.next();
    if (next.done || next.value.type === type) return;
  }
}
