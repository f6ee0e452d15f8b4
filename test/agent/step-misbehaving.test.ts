// Providers that send too much, too fast, or do not stop.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defineAgent } from '../../agent/definition/define.ts';
import { memorySession } from '../../agent/memory/memory-session.ts';
import { run } from '../../agent/memory/run.ts';
import type { ModelObject } from '../../agent/model-object.ts';
import { createModels } from '../../agent/models/models.ts';
import { classifyProviderError } from '../../agent/provider-failures/classify-provider-error.ts';
import { answerTooLong } from '../../agent/provider-stream/answer-size.ts';
import { streamModelCall } from '../../agent/step/stream-model-call.ts';
import { MAX_ANSWER } from '../../domain/max-answer.ts';
import { growthOf, MOST_LINEAR } from '../../tools/test-kit/growth.ts';
import { callTool, type ModelAction, raw, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import type { ModelPart } from './step-judge.ts';
import { collect, hello, readUntil, StepPlay, writeFile } from './step-play.ts';

type DoStream = ModelObject['doStream'];

const modelOf = (doStream: DoStream): ModelObject => ({
  specificationVersion: 'v4',
  provider: 'odd',
  modelId: 'odd',
  supportedUrls: {},
  doStream,
  doGenerate: () => Promise.reject(new Error('not used')),
});

/** A model whose stream is this one. */
const streaming = (source: UnderlyingDefaultSource<ModelPart>) =>
  modelOf(async () => ({ stream: new ReadableStream(source) }));

const resolvedOf = (model: ModelObject, idleMs = 120_000) => ({
  ref: 'odd/odd',
  model,
  contextLimit: 1,
  idleMs,
  maxInput: 1,
  maxOutput: 1,
  modalities: null,
});

const stepOf = (model: ModelObject, signal = new AbortController().signal, idleMs?: number) =>
  streamModelCall({
    model: resolvedOf(model, idleMs),
    system: '',
    messages: hello,
    tools: [writeFile],
    signal,
    newToolCallId: () => 'c',
  });

const begun: ModelPart = { type: 'text-start', id: '0' };
const delta = (text: string): ModelPart => ({ type: 'text-delta', id: '0', delta: text });
const never = () => new Promise<never>(() => {});
const MIB = 1024 ** 2;
const NO_USAGE = {
  inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

describe('a provider that ignores an abort', () => {
  it('R4 before its stream: the step ends, and a stream that comes later is closed', async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<Awaited<ReturnType<DoStream>>>();
    const closed = Promise.withResolvers<unknown>();
    const abort = new AbortController();
    const model = modelOf(() => {
      asked.resolve();
      return answer.promise;
    });
    const played = collect(stepOf(model, abort.signal));
    await asked.promise;
    abort.abort(new Error('asked to stop'));
    expect((await played).error).toMatchObject({ message: 'asked to stop' });
    answer.resolve({ stream: new ReadableStream<ModelPart>({ cancel: (reason) => closed.resolve(reason) }) });
    expect(await closed.promise).toMatchObject({ message: 'asked to stop' });
  });

  it('R4 in its stream, even if closing it never ends', async () => {
    const abort = new AbortController();
    const model = streaming({
      start: (stream) => [begun, delta('x')].forEach((part) => stream.enqueue(part)),
      cancel: never,
    });
    const step = stepOf(model, abort.signal);
    await readUntil(step, 'text-delta');
    const pending = step.next();
    abort.abort(new Error('asked to stop'));
    await expect(pending).rejects.toThrow('asked to stop');
  });
});

describe('a silent provider that ignores its signal', () => {
  const parts = (...sent: ModelPart[]) =>
    streaming({ start: (stream) => sent.forEach((part) => stream.enqueue(part)), cancel: never });

  it.each([
    ['before its stream', modelOf(never)],
    ['in its stream', parts(begun, delta('x'))],
  ])('R6 %s: the step ends, and can be retried', async (_name, model) => {
    const { error } = await collect(stepOf(model, undefined, 50));
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'ProviderUnavailable' });
  });
});

describe('an answer that does not end', () => {
  const endless = () => {
    const closed = Promise.withResolvers<void>();
    const seen = { parts: 0, closed: closed.promise };
    const model = streaming({
      start: (stream) => stream.enqueue(begun),
      pull(stream) {
        seen.parts += 1;
        stream.enqueue(delta('x'.repeat(MIB)));
      },
      cancel: () => closed.resolve(),
    });
    return { seen, model };
  };

  it('R7 is closed at 16 MiB', async () => {
    const { seen, model } = endless();
    const { error, chunks } = await collect(stepOf(model));
    expect(answerTooLong(error)).toMatchObject({ code: 'LimitReached' });
    // The part that began the text counts, too.
    expect(chunks.filter(({ type }) => type === 'text-delta')).toHaveLength(MAX_ANSWER / MIB - 1);
    await seen.closed;
    expect(seen.parts).toBeLessThan(MAX_ANSWER / MIB + 10);
  });

  it('R7 ends the turn, which says why, after one call', async () => {
    const { seen, model } = endless();
    const session = memorySession({
      agent: defineAgent({ id: 'a', description: 'd', mode: 'primary', prompt: 'p', tools: [] }),
      workspaceRoot: '/',
    });
    const errors: string[] = [];
    for await (const chunk of run(session, 'hello', resolvedOf(model)))
      if (chunk.type === 'error') errors.push(chunk.errorText);
    expect(errors).toEqual([
      'The turn reached its limit of 16 MiB in one answer of the model. Send a message to continue.',
    ]);
    expect(seen.parts).toBeLessThan(MAX_ANSWER / MIB + 10);
  });

  it.each([
    ['a tool’s input', (): ModelPart => ({ type: 'tool-input-delta', id: 'p', delta: 'x'.repeat(MIB) })],
    ['reasoning', (): ModelPart => ({ type: 'reasoning-delta', id: 'r', delta: 'x'.repeat(MIB) })],
    [
      'files',
      (): ModelPart => ({ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'eHh4'.repeat(MIB / 4) } }),
    ],
    [
      'sources',
      (): ModelPart => ({ type: 'source', sourceType: 'url', id: 'u', url: `https://e.org/${'x'.repeat(MIB)}` }),
    ],
  ])('R7 the same of %s', async (_name, next) => {
    const model = streaming({
      start(stream) {
        stream.enqueue({ type: 'tool-input-start', id: 'p', toolName: 'write_file' });
        stream.enqueue({ type: 'reasoning-start', id: 'r' });
      },
      pull: (stream) => stream.enqueue(next()),
    });
    expect(answerTooLong((await collect(stepOf(model))).error)).toMatchObject({ code: 'LimitReached' });
  });

  it.each([
    [200, 'an event', ''],
    [200, 'an event with comments', '\n: c\ndata: '],
    [500, 'an error', '\n\n'],
  ])('R7 with status %i, %s that does not end is closed', async (status, _name, between) => {
    let sent = 0;
    const body = function* body() {
      for (yield 'data: "'; ; sent += 1) yield 'x'.repeat(MIB) + between;
    };
    const server = createServer((_request, response) => {
      response.writeHead(status, { 'content-type': 'text/event-stream' });
      Readable.from(body())
        .on('error', () => {})
        .pipe(response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const closed = new Promise((resolve) => server.once('connection', (socket) => socket.once('close', resolve)));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const { model } = createModels({ openaiBaseUrl: url }).resolve('openai/x');
    const { error } = await collect(stepOf(model));
    expect(answerTooLong(error)).toMatchObject({ code: 'LimitReached' });
    await closed;
    expect(sent).toBeLessThan((2 * MAX_ANSWER) / MIB + 20);
    server.close();
  });
});

describe('a stream beside others', () => {
  it('Q2 whose next part has always arrived returns to the event loop after 64 parts', async () => {
    const parts = 10_000;
    const model = streaming({
      start(stream) {
        stream.enqueue(begun);
        for (let part = 0; part < parts; part += 1) stream.enqueue(delta('x'));
        stream.enqueue({ type: 'text-end', id: '0' });
        stream.enqueue({ type: 'finish', finishReason: { unified: 'stop', raw: 'stop' }, usage: NO_USAGE });
        stream.close();
      },
    });
    let turns = 0;
    let ended = false;
    const turn = () => {
      turns += 1;
      if (!ended) setImmediate(turn);
    };
    turn();
    const { chunks } = await collect(stepOf(model));
    ended = true;
    expect(chunks).toHaveLength(parts + 4);
    expect(turns).toBeGreaterThan((parts / 64) * 0.9);
  });

  let at: StepPlay;
  beforeAll(async () => void (at = await StepPlay.start()));
  afterAll(() => at.server.close());

  const GREEDY = [
    ['20,000 deltas at once', (eighths) => Array.from({ length: eighths * 2_500 }, () => say('word '))],
    ['10 MB of text in one delta', (eighths) => [say('word '.repeat(eighths * 250_000))]],
    [
      '10 MB of a tool’s input in one delta',
      (eighths) => [callTool('p', 'write_file', { path: 'x\n"'.repeat(eighths * 312_500) }, 20 * MIB)],
    ],
    ['16 MiB of white space before the answer', (eighths) => [raw('\n'.repeat(eighths * 2 * MIB)), say('word ')]],
  ] satisfies [string, (eighths: number) => ModelAction[]][];

  it.each(GREEDY)('Q2 with %s takes CPU in proportion to its size', async (_name, greedy) => {
    const play = async (eighths: number) => {
      const actions = greedy(eighths);
      expect((await at.play(() => actions)).error).toBeUndefined();
    };
    expect(await growthOf(play, 1)).toBeLessThan(MOST_LINEAR);
  });

  it.each(GREEDY)('Q2 with %s lets them go on meanwhile', async (_name, greedy) => {
    const actions = greedy(8);
    const [open, over] = [Promise.withResolvers<void>(), new AbortController()];
    at.server.script(async function* script(request) {
      if (lastUserText(request) === 'greedy') return yield* actions;
      // Until the other one has ended.
      while (!over.signal.aborted) {
        yield say('word ');
        await delay(5);
      }
      return undefined;
    });
    const { model } = createModels({ openaiBaseUrl: at.server.url }).resolve('openai/x');
    let words = 0;
    const normal = (async () => {
      for await (const { type } of stepOf(model)) {
        if (type !== 'text-delta') continue;
        words += 1;
        open.resolve();
      }
    })();
    await Promise.race([open.promise, normal]);
    const messages = [{ ...hello[0]!, parts: [{ type: 'text' as const, text: 'greedy' }] }];
    const signal = new AbortController().signal;
    const step = {
      model: resolvedOf(model),
      system: '',
      messages,
      tools: [writeFile],
      signal,
      newToolCallId: () => 'c',
    };
    const before = words;
    expect((await collect(streamModelCall(step))).error).toBeUndefined();
    expect(words - before, 'words meanwhile').toBeGreaterThan(0);
    over.abort();
    await normal;
  });
});
