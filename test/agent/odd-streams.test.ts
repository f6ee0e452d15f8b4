// The providers' odd streams over HTTP, with each provider package whose protocol they have.
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpenAI } from '@ai-sdk/openai';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createModels, type ResolvedModel } from '../../agent/models/models.ts';
import { classifyProviderError, failureOfFinish } from '../../agent/provider-failures/classify-provider-error.ts';
import { providerReport } from '../../agent/provider-failures/provider-report.ts';
import { providerFetch } from '../../agent/provider-stream/provider-fetch.ts';
import { streamModelCall } from '../../agent/step/stream-model-call.ts';
import { totalTokens } from '../../domain/usage.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { type Api, ODD_STREAMS, type OddStream, type Outcome } from './odd-streams.ts';
import { collect, hello, type Played, writeFile } from './step-play.ts';

let server: Server;
let url = '';
let odd: OddStream;
let bodies: Record<string, unknown>[] = [];
/** What is to be done with a request, instead of an odd answer. */
let refuse: ((body: Record<string, unknown>, response: ServerResponse) => boolean) | undefined;
let closed = Promise.withResolvers<void>();

beforeAll(async () => {
  server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>;
      bodies.push(body);
      response.once('close', () => closed.resolve());
      if (refuse?.(body, response)) return;
      response.writeHead(odd.status ?? 200, { 'content-type': odd.type ?? 'text/event-stream' });
      if (odd.connection?.startsWith('stays')) response.write(odd.body);
      else if (odd.connection === 'is cut') response.write(odd.body, () => setImmediate(() => response.destroy()));
      else response.end(odd.body);
      if (odd.connection !== 'stays alive') return;
      const comments = setInterval(() => response.write(': keep-alive\n\n'), 100);
      response.once('close', () => clearInterval(comments));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  vi.stubEnv('OPENAI_BASE_URL', url);
});

afterAll(() => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  server.close();
});

const PACKAGES: readonly (readonly [name: string, Api, () => ResolvedModel])[] = [
  ['@ai-sdk/openai-compatible', 'chat completions', () => createModels({ openaiBaseUrl: url }).resolve('openai/m')],
  [
    '@ai-sdk/openai with chat completions',
    'chat completions',
    () =>
      createModels({ providers: { acme: createOpenAI({ apiKey: 'k', fetch: providerFetch }).chat } }).resolve('acme/m'),
  ],
  ['@ai-sdk/openai', 'responses', () => createModels({ openaiApiKey: 'k' }).resolve('openai/m')],
  [
    '@ai-sdk/anthropic',
    'messages',
    () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }).resolve('anthropic/m'),
  ],
];

function play(model: ResolvedModel): Promise<Played> {
  bodies = [];
  closed = Promise.withResolvers();
  let calls = 0;
  const newToolCallId = () => `call_${++calls}`;
  const signal = new AbortController().signal;
  return collect(streamModelCall({ model, system: '', messages: hello, tools: [writeFile], signal, newToolCallId }));
}

function expectOutcome(outcome: Outcome, { chunks, result, error }: Played): void {
  if ('code' in outcome) {
    const { code, again, says, logs } = outcome;
    const failure = error === undefined ? failureOfFinish(result!.finishReason) : classifyProviderError(error);
    expect(failure).toMatchObject({ kind: again ? 'retryable' : 'final', code });
    if (says) expect(failure?.kind === 'final' && failure.message).toMatch(says);
    if (logs) expect(providerReport(error).message).toMatch(logs);
    return;
  }
  expect(error).toBeUndefined();
  const { text, calls = [], finish, input, output } = outcome;
  expect(chunks.map((chunk) => (chunk.type === 'text-delta' ? chunk.delta : '')).join('')).toBe(text);
  expect(result?.toolCalls).toMatchObject(calls);
  expect(result?.toolCalls).toHaveLength(calls.length);
  expect(chunks.filter(({ type }) => type === 'tool-input-available')).toHaveLength(calls.length);
  if (finish) expect(result?.finishReason).toBe(finish);
  if (input !== undefined) expect(result?.usage.input).toBe(input);
  if (output !== undefined) expect(totalTokens(result!.usage)).toBe((input ?? 0) + output);
}

describe.each(PACKAGES)('%s', (_name, api, model) => {
  it.each(ODD_STREAMS.filter((each) => each.api === api))('R6 $name', async (stream) => {
    odd = stream;
    refuse = undefined;
    const played = await play(model());
    expectOutcome(stream.outcome, played);
    expect(bodies).toHaveLength(1);
    // A connection that stays open is closed by this side.
    await closed.promise;
  });
});

describe.each(PACKAGES.filter(([, api]) => api === 'chat completions'))('%s', (name, _api, model) => {
  it('R6 an answer that is whole is not silent, however short the limit', async () => {
    odd = ODD_STREAMS.find((each) => each.name === 'stays open after its finish reason')!;
    refuse = undefined;
    expectOutcome(odd.outcome, await play({ ...model(), idleMs: patient(500) }));
    expect(bodies).toHaveLength(1);
  });

  it('R6 U1 an error that only repeats stream_options does not turn usage off', async () => {
    odd = ODD_STREAMS.find((each) => each.name === 'stays open after [DONE]')!;
    refuse = (body, response) => {
      response.writeHead(422, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ detail: [{ loc: ['body', 'messages'], msg: 'too few', input: body }] }));
      return true;
    };
    expectOutcome({ code: 'ProviderRejected', again: false }, await play(model()));
    expect(bodies).toHaveLength(1);
    refuse = undefined;
    await play(model());
    expect(bodies[0]).toHaveProperty('stream_options');
  });

  it('R6 stream_options that a server refuses are left out, from then on at once', async () => {
    odd = ODD_STREAMS.find((each) => each.name === 'stays open after [DONE]')!;
    refuse = (body, response) => {
      if (!('stream_options' in body)) return false;
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end('{"error":{"message":"Unrecognized request argument supplied: stream_options"}}');
      return true;
    };
    // An address of its own: what a server refuses is remembered.
    const usual = url;
    url = usual.replace('/v1', `/${name.length}/v1`);
    vi.stubEnv('OPENAI_BASE_URL', url);
    onTestFinished(() => void vi.stubEnv('OPENAI_BASE_URL', (url = usual)));
    const first = await play(model());
    expectOutcome(odd.outcome, first);
    expect(bodies.map((body) => 'stream_options' in body)).toEqual([true, false]);
    expectOutcome(odd.outcome, await play(model()));
    expect(bodies.map((body) => 'stream_options' in body)).toEqual([false]);
  });
});
