import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { APICallError } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createModels } from '../../agent/models/models.ts';
import { classifyProviderError } from '../../agent/provider-failures/classify-provider-error.ts';
import { cut, fail, hang, type ModelAction, raw, say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { collect, readUntil, StepPlay } from './step-play.ts';

let at: StepPlay;

beforeAll(async () => void (at = await StepPlay.start()));
afterAll(() => at.server.close());

describe('failures', () => {
  it('R6 a 429 throws the provider’s error before any chunk, with its Retry-After, after one request', async () => {
    const before = at.server.requests.length;
    const { chunks, error } = await at.play(() => [fail(429, { retryAfter: 7 })]);
    expect(chunks).toEqual([]);
    expect(classifyProviderError(error)).toEqual({
      kind: 'retryable',
      code: 'RateLimited',
      retryAfterMs: 7_000,
      reason: 'rate limited',
    });
    expect(at.server.requests.length - before).toBe(1);
  });

  it('T5 a connection cut while streaming throws after the received chunks', async () => {
    const { chunks, error, result } = await at.play(() => [say('Hel'), say('lo'), cut()]);
    expect(chunks.map((chunk) => chunk.type)).toEqual(['start-step', 'text-start', 'text-delta', 'text-delta']);
    expect(result).toBeUndefined();
    expect(APICallError.isInstance(error)).toBe(true);
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
  });

  it('R6 a refused connection is a network error', async () => {
    const models = createModels({ openaiBaseUrl: 'http://127.0.0.1:1/v1' });
    const { error } = await at.play(() => [], { model: models.resolve('openai/x') });
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'NetworkError' });
  });

  it.each([
    [
      'an error event while streaming',
      'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n',
      'Overloaded',
    ],
    ['a stream that ends without a finish reason', 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', 'NetworkError'],
  ])('R6 %s can be retried', async (_name, body, code) => {
    const odd = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(body);
    });
    await new Promise<void>((resolve) => odd.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(odd.address() as AddressInfo).port}/v1`;
    const model = createModels({ openaiBaseUrl: url }).resolve('openai/x');
    const { error } = await at.play(() => [], { model });
    odd.close();
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code });
  });
});

describe('silence', () => {
  const idleMs = patient(400);
  const impatient = () => {
    const models = createModels({ openaiBaseUrl: at.server.url, providerIdleMs: idleMs });
    return { model: models.resolve('openai/test') };
  };

  it.each<[string, ModelAction[], string[]]>([
    ['before the headers', [hang()], []],
    ['before the first chunk', [raw(': hello\n\n'), hang()], []],
    ['between chunks', [say('Hel'), say('lo'), hang()], ['start-step', 'text-start', 'text-delta', 'text-delta']],
  ])('R6 %s can be retried, and closes the connection', async (_name, script, types) => {
    const index = at.server.requests.length;
    const { chunks, error } = await at.play(() => script, impatient());
    expect(chunks.map(({ type }) => type)).toEqual(types);
    expect(classifyProviderError(error)).toEqual({
      kind: 'retryable',
      code: 'ProviderUnavailable',
      reason: 'the model provider fell silent',
    });
    const request = await at.server.request(index);
    await request.ended;
    expect(request.end).toBe('client-closed');
  });

  it('R6 a provider that sends comments while it thinks is not silent', async () => {
    const { error, result } = await at.play(async function* () {
      yield raw(': begun\n\n');
      for (const began = performance.now(); performance.now() - began < 2 * idleMs;) {
        await delay(10);
        yield raw(': still thinking\n\n');
      }
      yield say('done');
    }, impatient());
    expect([error, result?.finishReason]).toEqual([undefined, 'stop']);
  });

  it('R6 neither is one whose chunks are taken late', async () => {
    const step = at.step(() => [say('one'), say('two')], impatient());
    await readUntil(step, 'text-delta');
    await delay(2 * idleMs);
    await expect(collect(step)).resolves.toMatchObject({ error: undefined, result: { finishReason: 'stop' } });
  });
});

describe('abort', () => {
  it('R4 closes the provider’s connection, which sends nothing, and throws the signal’s reason', async () => {
    for (let turn = 0; turn < 3; turn += 1) {
      const abort = new AbortController();
      const index = at.server.requests.length;
      const step = at.step(() => [say('one'), hang()], { signal: abort.signal });
      await readUntil(step, 'text-delta');
      const pending = step.next();
      abort.abort(new Error('asked to stop'));
      await expect(pending).rejects.toThrow('asked to stop');
      const request = await at.server.request(index);
      await request.ended;
      expect(request.end).toBe('client-closed');
    }
  });

  it('R4 the same before the first byte, and before the call', async () => {
    const abort = new AbortController();
    const index = at.server.requests.length;
    const pending = at.play(() => [hang()], { signal: abort.signal });
    const request = await at.server.request(index);
    abort.abort(new Error('asked to stop'));
    expect((await pending).error).toMatchObject({ message: 'asked to stop' });
    await request.ended;
    const late = await at.play(() => [say('late')], { signal: abort.signal });
    expect([late.error, late.chunks]).toMatchObject([{ message: 'asked to stop' }, []]);
    expect(at.server.requests).toHaveLength(index + 1);
  });

  it('R4 ending the iteration ends the call', async () => {
    const index = at.server.requests.length;
    const step = at.step(() => [say('one'), hang()]);
    for await (const chunk of step) if (chunk.type === 'text-delta') break;
    const request = await at.server.request(index);
    await request.ended;
    expect(request.end).toBe('client-closed');
  });
});
