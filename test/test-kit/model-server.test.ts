import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, streamText, type ToolSet } from 'ai';
import { afterEach, expect, it } from 'vitest';
import { callTool, cut, fail, hang, report, say, saySlowly, think } from '../../tools/test-kit/model-actions.ts';
import {
  lastUserText,
  startModelServer,
  type ModelScript,
  type ModelServer,
} from '../../tools/test-kit/model-server.ts';

let server: ModelServer;
afterEach(() => server.close());

async function model(script: ModelScript) {
  server = await startModelServer(script);
  return createOpenAICompatible({ name: 'openai', baseURL: server.url, apiKey: 'key', includeUsage: true })(
    'some-model',
  );
}

const inputSchema = jsonSchema({ type: 'object', properties: { at: { type: 'string' } } });
const tools: ToolSet = { look: { description: 'looks', inputSchema } };

it('streams text, reasoning, tool calls and usage like a provider', async () => {
  const scripted = await model(() => [
    think('hm'),
    ...saySlowly('héllo 🌍 world', 3),
    callTool('call_1', 'look', { at: 'the sky' }, 4),
    callTool('call_2', 'look', { at: 'the sea' }, 4),
    report({ input: 100, output: 20, reasoning: 5, cached: 40 }),
  ]);
  const result = streamText({ model: scripted, prompt: 'go', tools });
  await result.consumeStream();
  expect(await result.text).toBe('héllo 🌍 world');
  expect(await result.reasoningText).toBe('hm');
  expect(await result.finishReason).toBe('tool-calls');
  expect((await result.toolCalls).map((call) => [call.toolCallId, call.input as unknown])).toEqual([
    ['call_1', { at: 'the sky' }],
    ['call_2', { at: 'the sea' }],
  ]);
  expect(await result.usage).toMatchObject({
    inputTokens: 100,
    outputTokens: 20,
    outputTokenDetails: { reasoningTokens: 5 },
    inputTokenDetails: { cacheReadTokens: 40 },
  });
});

it('responds without streaming if no stream is requested', async () => {
  const scripted = await model((request) => [say(`you said ${lastUserText(request)}`)]);
  const result = await generateText({ model: scripted, prompt: 'hello' });
  expect(result.text).toBe('you said hello');
  expect(server.requests[0]).toMatchObject({ end: 'answered', headers: { authorization: 'Bearer key' } });
});

it('serves the chat completions of the OpenAI provider too', async () => {
  server = await startModelServer(() => saySlowly('hello'));
  const openai = createOpenAI({ baseURL: server.url, apiKey: 'key' });
  const result = streamText({ model: openai.chat('gpt-5'), prompt: 'hi' });
  await result.consumeStream();
  expect(await result.text).toBe('hello');
});

it('waits where the script waits for the test, and detects that the client disconnects', async () => {
  const gate = Promise.withResolvers<void>();
  const scripted = await model(async function* () {
    yield say('one');
    await gate.promise;
    yield say('two');
    yield hang();
  });
  const controller = new AbortController();
  const result = streamText({ model: scripted, prompt: 'go', abortSignal: controller.signal });
  let text = '';
  for await (const delta of result.textStream) {
    text += delta;
    if (text === 'one') gate.resolve();
    if (text === 'onetwo') controller.abort();
  }
  const request = await server.request(0);
  await request.ended;
  expect(request.end).toBe('client-closed');
});

it('fails and cuts the connection as scripted', async () => {
  const scripted = await model((_, index) => (index === 0 ? [fail(429, { retryAfter: 0 })] : [say('half'), cut()]));
  const errors: unknown[] = [];
  const result = streamText({
    model: scripted,
    prompt: 'go',
    maxRetries: 1,
    onError: ({ error }) => void errors.push(error),
  });
  let text = '';
  const reading = (async () => {
    for await (const delta of result.textStream) text += delta;
  })();
  await reading.catch((error: unknown) => errors.push(error));
  expect({ text, failed: errors.length > 0 }).toEqual({ text: 'half', failed: true });
  expect(server.requests.map((request) => request.end)).toEqual(['answered', 'cut']);
});
