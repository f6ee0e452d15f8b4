import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { APICallError, type UIMessage, type UIMessageChunk } from 'ai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { callTool, cut, fail, finish, hang, report, say, think } from '../test/support/model-actions.ts';
import { type ModelScript, type ModelServer, startModelServer } from '../test/support/model-server.ts';
import { defineTool } from './define.ts';
import { createModels } from './models.ts';
import { classifyProviderError } from './provider-errors.ts';
import { type StepInput, type StepResult, streamStep } from './step.ts';

let server: ModelServer;
let calls = 0;

beforeAll(async () => void (server = await startModelServer(() => [])));
afterAll(() => server.close());
beforeEach(() => void (calls = 0));

const writeFile = defineTool({
  name: 'write_file',
  description: 'Writes a file.',
  input: z.object({ path: z.string(), content: z.string().optional() }),
  execute: () => null,
});

const hello: UIMessage[] = [{ id: 'msg_1', role: 'user', parts: [{ type: 'text', text: 'hello' }] }];

function stepInput(more: Partial<StepInput> = {}): StepInput {
  const models = createModels({ openaiBaseUrl: server.url, openaiApiKey: 'sk-test' });
  return {
    model: models.resolve('openai/test'),
    system: 'Be kind.',
    messages: hello,
    tools: [writeFile],
    signal: new AbortController().signal,
    newToolCallId: () => `call_ours_${++calls}`,
    ...more,
  };
}

interface Played {
  chunks: UIMessageChunk[];
  result: StepResult | undefined;
  error: unknown;
}

async function play(script: ModelScript, more: Partial<StepInput> = {}): Promise<Played> {
  server.script(script);
  return collect(streamStep(stepInput(more)));
}

async function collect(step: AsyncGenerator<UIMessageChunk, StepResult, void>): Promise<Played> {
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

async function typeOfNext(step: AsyncGenerator<UIMessageChunk, StepResult, void>): Promise<string> {
  const next = await step.next();
  return next.done ? 'done' : next.value.type;
}

const typesOf = (played: Played) => played.chunks.map((chunk) => chunk.type);
const lastRequest = () => server.requests.at(-1)!;

describe('one step', () => {
  it('R1 yields reasoning, text and tool input in order, between start-step and finish-step', async () => {
    const played = await play(() => [
      think('Let me '),
      think('see.'),
      say('Hel'),
      say('lo'),
      callTool('p1', 'write_file', { path: 'a' }, 8),
    ]);
    expect(typesOf(played)).toEqual([
      'start-step',
      'reasoning-start',
      'reasoning-delta',
      'reasoning-delta',
      'reasoning-end',
      'text-start',
      'text-delta',
      'text-delta',
      ...['tool-input-start', 'tool-input-delta', 'tool-input-delta'],
      'text-end',
      'tool-input-available',
      'finish-step',
    ]);
    expect(played.result).toMatchObject({ finishReason: 'tool-calls', model: 'openai/test' });
    expect(played.result?.toolCalls).toEqual([
      { toolCallId: 'call_ours_1', toolName: 'write_file', input: { path: 'a' } },
    ]);
  });

  it('R1 hands a chunk on while the provider is still silent about the next', async () => {
    const gate = Promise.withResolvers<void>();
    server.script(async function* script() {
      yield say('first');
      await gate.promise;
      yield say('second');
    });
    const step = streamStep(stepInput());
    const seen: string[] = [];
    while (!seen.includes('text-delta')) seen.push(await typeOfNext(step));
    expect(lastRequest().endedAt).toBeUndefined();
    gate.resolve();
    expect(typesOf(await collect(step))).toEqual(['text-delta', 'text-end', 'finish-step']);
  });

  it('P1 sends the system text, the tools in their own parameter, and asks for usage', async () => {
    await play(() => [say('hi')], { temperature: 0.2, maxOutputTokens: 99 });
    const { body } = lastRequest();
    expect(body.messages[0]).toMatchObject({ role: 'system', content: 'Be kind.' });
    expect(body.tools?.[0]?.function).toMatchObject({ name: 'write_file', description: 'Writes a file.' });
    expect(body.tools?.[0]?.function.parameters).toMatchObject({ type: 'object', required: ['path'] });
    expect(body).toMatchObject({ temperature: 0.2, max_tokens: 99, stream_options: { include_usage: true } });
  });

  it('U1 counts cached and reasoning tokens apart', async () => {
    const { result } = await play(() => [say('hi'), report({ input: 1_000, output: 50, reasoning: 30, cached: 600 })]);
    expect(result?.usage).toEqual({ input: 400, output: 20, reasoning: 30, cache_read: 600, cache_write: 0 });
  });

  it('R6 ends with the provider’s reason when it is the length or the content filter', async () => {
    const long = await play(() => [say('cut off'), finish('length')]);
    const filtered = await play(() => [say('no'), finish('content_filter')]);
    expect([long.result?.finishReason, filtered.result?.finishReason]).toEqual(['length', 'content-filter']);
  });

  it('R1 an empty answer is a step without content', async () => {
    expect(typesOf(await play(() => []))).toEqual(['start-step', 'finish-step']);
  });
});

describe('tool calls', () => {
  it('T3 have ids of ours when a provider repeats its own within a step', async () => {
    const { chunks, result } = await play(() => [
      callTool('call_1', 'write_file', { path: 'a' }, 4),
      callTool('call_1', 'write_file', { path: 'b' }, 4),
    ]);
    expect(result?.toolCalls.map(({ toolCallId, input }) => [toolCallId, input])).toEqual([
      ['call_ours_1', { path: 'a' }],
      ['call_ours_2', { path: 'b' }],
    ]);
    for (const { toolCallId, input } of result?.toolCalls ?? []) {
      const deltas = chunks.flatMap((chunk) =>
        chunk.type === 'tool-input-delta' && chunk.toolCallId === toolCallId ? [chunk.inputTextDelta] : [],
      );
      expect(JSON.parse(deltas.join(''))).toEqual(input);
    }
  });

  it('T3 keep the provider’s id as metadata, and go back to it under ours', async () => {
    const { chunks } = await play(() => [callTool('call_1', 'write_file', { path: 'a' })]);
    expect(chunks.find((chunk) => chunk.type === 'tool-input-available')).toMatchObject({
      toolCallId: 'call_ours_1',
      providerMetadata: { perdure: { providerToolCallId: 'call_1' } },
    });
    const part = {
      type: 'tool-write_file' as const,
      toolCallId: 'call_ours_1',
      state: 'output-available' as const,
      input: { path: 'a' },
      output: 'written',
      callProviderMetadata: { perdure: { providerToolCallId: 'call_1' } },
    };
    await play(() => [say('ok')], {
      messages: [...hello, { id: 'msg_2', role: 'assistant', parts: [{ type: 'step-start' }, part] }],
    });
    const { messages } = lastRequest().body;
    expect(messages.at(-2)?.tool_calls?.[0]?.id).toBe('call_ours_1');
    expect(messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 'call_ours_1', content: 'written' });
  });

  it('R6 an unknown tool is an error that names those there are, under a name that providers take back', async () => {
    const { chunks, result } = await play(() => [callTool('c', 'rm -rf /', { a: 1 })]);
    expect(result?.toolCalls).toEqual([
      { toolCallId: 'call_ours_1', toolName: 'rm_-rf__', input: { a: 1 }, invalid: true },
    ]);
    expect(
      chunks
        .filter((chunk) => 'toolCallId' in chunk)
        .every((chunk) => 'dynamic' in chunk || chunk.type === 'tool-input-delta'),
    ).toBe(true);
    expect(chunks.find((chunk) => chunk.type === 'tool-input-error')?.errorText).toBe(
      'There is no tool "rm_-rf__". The tools are: write_file.',
    );
  });

  it('P5 bad input is an error that says what is wrong', async () => {
    const wrong = await play(() => [callTool('c', 'write_file', { path: 7 })]);
    const broken = await play(() => [callTool('c', 'write_file', '{"path": "a')]);
    const textOf = ({ chunks }: Played) => chunks.find((chunk) => chunk.type === 'tool-input-error')?.errorText;
    expect(textOf(wrong)).toMatch(/The input of "write_file" is not right: path: .*expected string/);
    expect(textOf(broken)).toMatch(/The input of "write_file" is not valid JSON\. It begins: \{"path": "a/);
    expect([wrong, broken].map(({ result }) => result?.toolCalls[0]?.invalid)).toEqual([true, true]);
  });

  it('P5 input is kept as the model wrote it; the schema’s transforms wait for the tool', async () => {
    const shout = defineTool({
      name: 'shout',
      description: 'Shouts.',
      input: z.object({ text: z.string().transform((text) => text.length), loud: z.boolean().default(true) }),
      execute: () => null,
    });
    const { result } = await play(() => [callTool('c', 'shout', { text: 'abc' })], { tools: [shout] });
    expect(result?.toolCalls[0]).toMatchObject({ input: { text: 'abc' } });
  });
});

describe('text that Postgres refuses', () => {
  it('T5 leaves neither U+0000 nor lone surrogates in text, reasoning, names, ids and inputs', async () => {
    const bad = 'a\0b\uD83Dc';
    const { chunks, result } = await play(() => [
      think(bad),
      say(bad),
      callTool(bad, `x${bad}`, { [bad]: [bad, { deep: bad }] }, 3),
      callTool('c', 'write_file', { path: bad }, 1),
    ]);
    const json = JSON.stringify([chunks, result]);
    expect(json).not.toMatch(/\\u0000|\\ud[89a-f]/i);
    expect(result?.toolCalls[1]?.input).toEqual({ path: 'a\uFFFDb\uFFFDc' });
    const deltas = chunks.flatMap((chunk) => (chunk.type === 'tool-input-delta' ? [chunk.inputTextDelta] : []));
    expect(deltas.join('')).not.toMatch(/\\u0000|\\ud83d/i);
  });

  it('T5 keeps a pair whole that the provider splits over two deltas, in text and reasoning', async () => {
    const { chunks } = await play(() => [
      think('a\uD83D'),
      think('\uDE00'),
      say('b\uD83D'),
      say('\uDE00c'),
      say('\uD83D'),
    ]);
    const join = (type: string) =>
      chunks.flatMap((chunk) => (chunk.type === type && 'delta' in chunk ? [chunk.delta] : [])).join('');
    expect([join('reasoning-delta'), join('text-delta')]).toEqual(['a😀', 'b😀c\uFFFD']);
  });
});

describe('failures', () => {
  it('R6 a 429 throws the provider’s error before any chunk, with its Retry-After, after one request', async () => {
    const before = server.requests.length;
    const { chunks, error } = await play(() => [fail(429, { retryAfter: 7 })]);
    expect(chunks).toEqual([]);
    expect(classifyProviderError(error)).toEqual({
      kind: 'retryable',
      code: 'RateLimited',
      retryAfterMs: 7_000,
      reason: 'rate limited',
    });
    expect(server.requests.length - before).toBe(1);
  });

  it('T5 a connection cut in mid-stream throws after what had come', async () => {
    const { chunks, error, result } = await play(() => [say('Hel'), say('lo'), cut()]);
    expect(chunks.map((chunk) => chunk.type)).toEqual(['start-step', 'text-start', 'text-delta', 'text-delta']);
    expect(result).toBeUndefined();
    expect(APICallError.isInstance(error)).toBe(true);
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
  });

  it('R6 a refused connection is a network error', async () => {
    const models = createModels({ openaiBaseUrl: 'http://127.0.0.1:1/v1' });
    const { error } = await collect(streamStep(stepInput({ model: models.resolve('openai/x') })));
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
  });

  it.each([
    [
      'an error event in mid-stream',
      'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n',
      'Overloaded',
    ],
    ['a stream that ends without saying why', 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', 'NetworkError'],
    ['a stream of garbage', 'data: {"choices":[{"delta"\n\n', 'NetworkError'],
  ])('R6 %s can be tried again', async (_name, body, code) => {
    const odd = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(body);
    });
    await new Promise<void>((resolve) => odd.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(odd.address() as AddressInfo).port}/v1`;
    const model = createModels({ openaiBaseUrl: url }).resolve('openai/x');
    const { error } = await collect(streamStep(stepInput({ model })));
    odd.close();
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code });
  });
});

describe('abort', () => {
  it('R4 closes the provider’s connection at once and throws the signal’s reason', async () => {
    const waits: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      const abort = new AbortController();
      const index = server.requests.length;
      server.script(() => [say('one'), hang()]);
      const step = streamStep(stepInput({ signal: abort.signal }));
      while ((await typeOfNext(step)) !== 'text-delta');
      const pending = step.next();
      const abortedAt = performance.now();
      abort.abort(new Error('asked to stop'));
      await expect(pending).rejects.toThrow('asked to stop');
      const request = await server.request(index);
      await request.ended;
      expect(request.end).toBe('client-closed');
      waits.push((request.endedAt ?? Number.NaN) - abortedAt);
    }
    const [median = Number.NaN] = waits.toSorted((a, b) => a - b).slice(10);
    expect(median).toBeLessThan(5);
  });

  it('R4 before the first byte, and before the call, does the same', async () => {
    const abort = new AbortController();
    const index = server.requests.length;
    server.script(() => [hang()]);
    const pending = collect(streamStep(stepInput({ signal: abort.signal })));
    const request = await server.request(index);
    abort.abort(new Error('asked to stop'));
    expect((await pending).error).toMatchObject({ message: 'asked to stop' });
    await request.ended;
    const late = await collect(streamStep(stepInput({ signal: abort.signal })));
    expect([late.error, late.chunks]).toMatchObject([{ message: 'asked to stop' }, []]);
    expect(server.requests).toHaveLength(index + 1);
  });

  it('R4 a reader that leaves the generator ends the call', async () => {
    const index = server.requests.length;
    server.script(() => [say('one'), hang()]);
    for await (const chunk of streamStep(stepInput())) if (chunk.type === 'text-delta') break;
    const request = await server.request(index);
    await request.ended;
    expect(request.end).toBe('client-closed');
  });
});
