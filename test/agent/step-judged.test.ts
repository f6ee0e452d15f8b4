import { APICallError } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createModels } from '../../agent/models/models.ts';
import { callTool, cut, finish, raw, report, say, think } from '../../tools/test-kit/model-actions.ts';
import type { ModelScript } from '../../tools/test-kit/model-server.ts';
import { type ModelPart, ours, RecordedModel, theirs } from './step-judge.ts';
import { hello, StepPlay } from './step-play.ts';

const text = (id: string, ...deltas: string[]): ModelPart[] => [
  { type: 'text-start', id },
  ...deltas.map((delta): ModelPart => ({ type: 'text-delta', id, delta })),
  { type: 'text-end', id },
];

const inputOf = (id: string, toolName: string, input: string): ModelPart[] => [
  { type: 'tool-input-start', id, toolName },
  { type: 'tool-input-delta', id, delta: input.slice(0, 5) },
  { type: 'tool-input-delta', id, delta: input.slice(5) },
  { type: 'tool-input-end', id },
];

const call = (toolCallId: string, toolName: string, input: string): ModelPart => ({
  type: 'tool-call',
  toolCallId,
  toolName,
  input,
});

type Finish = Extract<ModelPart, { type: 'finish' }>;
type Reason = Finish['finishReason']['unified'];

const finished = (unified: Reason = 'stop', usage: Partial<Finish['usage']> = {}): ModelPart => ({
  type: 'finish',
  finishReason: { unified, raw: 'as the provider says' },
  usage: {
    inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 5, text: 5, reasoning: 0 },
    ...usage,
  },
});

const started: ModelPart = { type: 'stream-start', warnings: [{ type: 'unsupported', feature: 'topK' }] };
const signed = { anthropic: { signature: 'c2ln' } };

const STREAMS: Record<string, ModelPart[]> = {
  'text, with what is not content': [
    started,
    { type: 'response-metadata', id: 'r', modelId: 'm', timestamp: new Date(0) },
    { type: 'ping' },
    { type: 'raw', rawValue: { any: 1 } },
    ...text('0', 'Hel', '', 'lo'),
    finished(),
  ],
  'two texts with one id': [...text('0', 'a'), ...text('0', 'b'), finished()],
  'text with metadata and citations': [
    { type: 'text-start', id: '0', providerMetadata: { p: { a: 1 } } },
    { type: 'text-delta', id: '0', delta: 'x', providerMetadata: { p: { b: 2 } } },
    { type: 'text-delta', id: '0', delta: '', providerMetadata: { p: { c: 3 } } },
    { type: 'text-end', id: '0', providerMetadata: { p: { d: 4 } } },
    finished(),
  ],
  'reasoning with a signature, and redacted': [
    { type: 'reasoning-start', id: '0' },
    { type: 'reasoning-delta', id: '0', delta: 'Let me ' },
    { type: 'reasoning-delta', id: '0', delta: 'see' },
    { type: 'reasoning-delta', id: '0', delta: '', providerMetadata: signed },
    { type: 'reasoning-end', id: '0' },
    { type: 'reasoning-start', id: '1', providerMetadata: { anthropic: { redactedData: 'eA==' } } },
    { type: 'reasoning-end', id: '1' },
    { type: 'reasoning-file', mediaType: 'image/png', data: { type: 'data', data: 'aGVsbG8=' } },
    ...text('2', 'So.'),
    finished(),
  ],
  'parallel tool calls whose inputs are mixed': [
    { type: 'tool-input-start', id: 'p1', toolName: 'write_file' },
    { type: 'tool-input-start', id: 'p2', toolName: 'write_file', providerMetadata: { google: { sig: 's' } } },
    { type: 'tool-input-delta', id: 'p1', delta: '{"path":' },
    { type: 'tool-input-delta', id: 'p2', delta: '{"path":"b"' },
    { type: 'tool-input-delta', id: 'p1', delta: '"a"}' },
    { type: 'tool-input-delta', id: 'p2', delta: '}' },
    call('p1', 'write_file', '{"path":"a"}'),
    { ...call('p2', 'write_file', '{"path":"b"}'), providerMetadata: { google: { sig: 's' } } } as ModelPart,
    finished('tool-calls'),
  ],
  'a tool call that arrives complete': [
    ...text('0', 'ok'),
    call('p', 'write_file', '{"path":"a"}'),
    finished('tool-calls'),
  ],
  'a call with invalid JSON': [
    ...inputOf('p', 'write_file', '{"path":"a'),
    call('p', 'write_file', '{"path":"a'),
    finished('tool-calls'),
  ],
  'a call with input of the wrong type': [call('p', 'write_file', '{"path":7}'), finished('tool-calls')],
  'a call without input': [call('p', 'write_file', ''), finished('tool-calls')],
  'a call of an unknown tool': [
    ...inputOf('p', 'shout', '{"a":1}'),
    call('p', 'shout', '{"a":1}'),
    finished('tool-calls'),
  ],
  'a tool that the provider runs': [
    { type: 'tool-input-start', id: 's1', toolName: 'web_search', providerExecuted: true, dynamic: true },
    { type: 'tool-input-delta', id: 's1', delta: '{"q":"x"}' },
    { type: 'tool-input-end', id: 's1' },
    { ...call('s1', 'web_search', '{"q":"x"}'), providerExecuted: true, dynamic: true } as ModelPart,
    { type: 'tool-result', toolCallId: 's1', toolName: 'web_search', result: { found: ['y'] }, dynamic: true },
    { ...call('s2', 'web_search', '{"q":"z"}'), providerExecuted: true, dynamic: true } as ModelPart,
    { type: 'tool-result', toolCallId: 's2', toolName: 'web_search', result: 'no', isError: true, dynamic: true },
    ...text('0', 'Found.'),
    finished(),
  ],
  'files and sources': [
    { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGVsbG8=' } },
    {
      type: 'file',
      mediaType: 'image/png',
      data: { type: 'data', data: new Uint8Array([1, 2, 3]) },
      providerMetadata: signed,
    },
    { type: 'source', sourceType: 'url', id: 'u', url: 'https://example.org/', title: 'Example' },
    { type: 'source', sourceType: 'document', id: 'd', mediaType: 'text/plain', title: 'Notes', filename: 'n.txt' },
    { type: 'custom', kind: 'recorded.event', providerMetadata: { p: { a: 1 } } },
    finished(),
  ],
  'an empty answer': [started, finished()],
  'an empty text': [...text('0'), finished()],
  'cached, written and reasoning tokens, and the provider’s own report': [
    ...text('0', 'x'),
    finished('stop', {
      inputTokens: { total: 100, noCache: 10, cacheRead: 60, cacheWrite: 30 },
      outputTokens: { total: 50, text: 20, reasoning: 30 },
      raw: { total_tokens: 150 },
    }),
  ],
  'a report of cache writes that the SDK does not know': [
    ...text('0', 'x'),
    finished('stop', {
      inputTokens: { total: 100, noCache: 40, cacheRead: 60, cacheWrite: undefined },
      raw: { prompt_tokens_details: { cache_write_tokens: 30 }, total_tokens: 125 },
    }),
  ],
  'no usage': [
    ...text('0', 'x'),
    finished('stop', {
      inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: undefined, text: undefined, reasoning: undefined },
    }),
  ],
  'an error in mid-stream': [
    ...text('0', 'x'),
    { type: 'error', error: { message: 'Overloaded', type: 'overloaded_error' } },
    ...text('1', 'y'),
    finished('error'),
  ],
  'an error before any content': [started, { type: 'error', error: new Error('odd') }, finished('error')],
};

const REASONS: Reason[] = ['stop', 'length', 'content-filter', 'tool-calls', 'error', 'other'];
for (const reason of REASONS) STREAMS[`the finish reason ${reason}`] = [...text('0', 'x'), finished(reason)];

describe('a step and the AI SDK’s streamText make the same of', () => {
  it.each(Object.entries(STREAMS))('R1 %s', async (_name, parts) => {
    const model = new RecordedModel(parts);
    const judged = await theirs(model.object);
    expect(await ours(model.object)).toEqual(judged);
    expect(sent(model, 1)).toEqual(sent(model, 0));
  });

  it('R6 a connection that is cut in mid-stream', async () => {
    const cause = new TypeError('terminated');
    const error = new APICallError({ message: 'x', url: 'y', requestBodyValues: {}, statusCode: 200, cause });
    const model = new RecordedModel(
      [
        { type: 'text-start', id: '0' },
        { type: 'text-delta', id: '0', delta: 'x' },
      ],
      error,
    );
    const judged = await theirs(model.object);
    expect(judged).toMatchObject({ parts: [{}, { text: 'x' }], failure: { kind: 'retryable', code: 'NetworkError' } });
    expect(await ours(model.object)).toEqual(judged);
  });

  it('R1 a conversation with files and tool outputs', async () => {
    const model = new RecordedModel([...text('0', 'x'), finished()]);
    const messages = [
      {
        ...hello[0]!,
        parts: [
          ...hello[0]!.parts,
          { type: 'file' as const, mediaType: 'image/png', url: 'data:image/png;base64,aGVsbG8=' },
        ],
      },
      {
        id: 'msg_2',
        role: 'assistant' as const,
        parts: [
          { type: 'step-start' as const },
          { type: 'reasoning' as const, text: 'hm', providerMetadata: signed },
          {
            type: 'tool-write_file' as const,
            toolCallId: 'c',
            state: 'output-available' as const,
            input: { path: 'a' },
            output: { n: 1 },
          },
          {
            type: 'tool-write_file' as const,
            toolCallId: 'd',
            state: 'output-error' as const,
            input: { path: 'b' },
            errorText: 'no',
          },
          { type: 'step-start' as const },
          { type: 'text' as const, text: 'done' },
        ],
      },
      { ...hello[0]!, id: 'msg_3' },
    ];
    const judged = await theirs(model.object, messages);
    expect(await ours(model.object, messages)).toEqual(judged);
    expect(sent(model, 1)).toEqual(sent(model, 0));
  });
});

/** What a call sent to the provider. */
function sent({ calls }: RecordedModel, index: number): unknown {
  const { abortSignal: _signal, ...options } = calls[index]!;
  return JSON.parse(JSON.stringify(options));
}

it.each([
  ['text-delta', { type: 'text-delta', id: '1', delta: 'y' }],
  ['reasoning-end', { type: 'reasoning-end', id: '1' }],
] as const)('R6 a %s of a part that has not begun fails the call, as in streamText', async (_name, part) => {
  const { parts, failure } = await ours(new RecordedModel([...text('0', 'x'), part, finished()]).object);
  expect(parts).toMatchObject([{ type: 'step-start' }, { text: 'x' }]);
  expect(failure).toMatchObject({ kind: 'final', code: 'Internal' });
});

it.each([
  ['text', text('0', 'x')],
  ['a tool call', call('p', 'write_file', '{"path":"a"}')],
  ['nothing', started],
])('T5 a stream that ends after %s without a finish is a failure that can be retried', async (_name, part) => {
  const { failure } = await ours(new RecordedModel([part].flat()).object);
  const reason = 'the model provider ended its answer early';
  expect(failure).toEqual({ kind: 'retryable', code: 'NetworkError', reason });
});

describe('over HTTP, too', () => {
  let at: StepPlay;
  beforeAll(async () => void (at = await StepPlay.start()));
  afterAll(() => at.server.close());

  const SCRIPTS: Record<string, ModelScript> = {
    'reasoning, text and calls': () => [
      think('hm'),
      say('Hel'),
      say('lo'),
      callTool('1', 'write_file', { path: 'a' }, 3),
      callTool('2', 'write_file', { path: 'b' }, 3),
      report({ input: 100, output: 50, reasoning: 20, cached: 40, cacheWritten: 10 }),
    ],
    'a content filter': () => [say('no'), finish('content_filter')],
    'an empty answer': () => [],
    'an error in mid-stream': () => [
      say('x'),
      raw('data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n'),
    ],
    garbage: () => [say('x'), raw('data: {"choices":[{"delta"\n\n')],
    'a cut connection': () => [say('x'), cut()],
  };

  it.each(Object.entries(SCRIPTS))('R1 %s', async (_name, script) => {
    at.server.script(script);
    const { model } = createModels({ openaiBaseUrl: at.server.url, openaiApiKey: 'sk-test' }).resolve('openai/test');
    const judged = await theirs(model);
    expect(await ours(model)).toEqual(judged);
    const [theirRequest, ourRequest] = at.server.requests.slice(-2);
    expect(ourRequest!.body).toEqual(theirRequest!.body);
  });
});
