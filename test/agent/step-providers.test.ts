// A step over the providers' own protocols: OpenAI's responses and Anthropic's messages, from a small server, because the
// scripted one has chat completions only.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpenAI } from '@ai-sdk/openai';
import type { UIMessage } from 'ai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ActivityContext } from '../../activities/activity-context.ts';
import { withAttachments } from '../../activities/prompt/with-attachments.ts';
import { createModels } from '../../agent/models/models.ts';
import { classifyProviderError } from '../../agent/provider-failures/classify-provider-error.ts';
import { streamModelCall } from '../../agent/step/stream-model-call.ts';
import { totalTokens } from '../../domain/usage.ts';
import { Contents } from '../../store/contents.ts';
import { attached } from '../../tools/test-kit/attached.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { freshRows, Session } from '../rows/session.ts';
import { collect, hello, writeFile } from './step-play.ts';

const db = await freshRows();

type Event = { type: string } & Record<string, unknown>;
type Body = Record<string, unknown> & { tools: unknown[] };

let server: Server;
let events: Event[] = [];
let bodies: Body[] = [];
let url = '';

beforeEach(async () => {
  bodies = [];
  events = [];
  server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      bodies.push(JSON.parse(Buffer.concat(pieces).toString()) as Body);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});

afterEach(() => {
  vi.unstubAllEnvs();
  server.close();
});

function stepOf(model: ReturnType<ReturnType<typeof createModels>['resolve']>, messages: UIMessage[] = hello) {
  const signal = new AbortController().signal;
  return collect(
    streamModelCall({
      model,
      system: 'Be kind.',
      messages,
      tools: [writeFile],
      signal,
      newToolCallId: () => 'call_ours',
    }),
  );
}

/** The conversation with an answer that called a tool, as it is stored. */
function withAnswer(parts: UIMessage['parts']): UIMessage[] {
  return [...hello, { id: 'msg_2', role: 'assistant', parts: [{ type: 'step-start' }, ...parts] }];
}

const BYTES = {
  'image/png': Buffer.from(PIXEL, 'base64'),
  'application/pdf': Buffer.from('%PDF-1.7\n\u00e2\u00e3\n%%EOF\n'),
  'text/markdown': Buffer.from('# Tea\nFür zwei.\n'),
};
const PDF = BYTES['application/pdf'].toString('base64');
const PNG_URL = `data:image/png;base64,${PIXEL}`;
const PDF_URL = `data:application/pdf;base64,${PDF}`;
const TEXT = '[file "a.md" of type text/markdown]\n# Tea\nFür zwei.\n';
const base64 = (media_type: string, data: string) => ({ type: 'base64', media_type, data });
/** From the API references: responses, messages, and chat completions. */
const CHAT_SHAPES = [
  { type: 'image_url', image_url: { url: PNG_URL } },
  { type: 'file', file: { filename: 'a.pdf', file_data: PDF_URL } },
  { type: 'text', text: TEXT },
];
const FILE_SHAPES = {
  OpenAI: [
    { type: 'input_image', image_url: PNG_URL },
    { type: 'input_file', filename: 'a.pdf', file_data: PDF_URL },
    { type: 'input_text', text: TEXT },
  ],
  Anthropic: [
    { type: 'image', source: base64('image/png', PIXEL) },
    { type: 'document', source: base64('application/pdf', PDF) },
    { type: 'text', text: TEXT },
  ],
  'OpenAI with chat completions': CHAT_SHAPES,
  'a compatible server': CHAT_SHAPES,
} as const;

/** What a step gets of a message with these files as attachments, read from Postgres. */
async function attachedFiles(): Promise<UIMessage[]> {
  const session = await Session.at('chatting', db);
  const contents = new Contents(db);
  const names = { 'image/png': 'a.png', 'application/pdf': 'a.pdf', 'text/markdown': 'a.md' } as const;
  const parts: UIMessage['parts'] = [];
  for (const [mediaType, bytes] of Object.entries(BYTES)) {
    const filename = names[mediaType as keyof typeof names];
    parts.push({ ...(await attached({ db, contents }, session.id, { bytes, mediaType, filename })), filename });
  }
  const reading = {
    context: { db, contents } as ActivityContext,
    sessionId: session.id,
    signal: new AbortController().signal,
  };
  return withAttachments(reading, [{ id: 'msg_1', role: 'user', parts }]);
}

/** OpenAI's package with the API that its default has replaced, as an application's provider. */
const chatCompletions = () => createOpenAI({ apiKey: 'k', baseURL: url }).chat;

describe.each([
  ['OpenAI', () => createModels({ openaiApiKey: 'k' }).resolve('openai/gpt-test')],
  [
    'OpenAI with chat completions',
    () => createModels({ providers: { acme: chatCompletions() } }).resolve('acme/gpt-test'),
  ],
  ['Anthropic', () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }).resolve('anthropic/claude-test')],
  ['a compatible server', () => createModels({ openaiBaseUrl: url }).resolve('openai/test')],
])('%s', (name, model) => {
  it('T10 an image, a PDF and a text are sent in the shapes of its API, byte for byte', async () => {
    vi.stubEnv('OPENAI_BASE_URL', url);
    await stepOf(model(), await attachedFiles());
    const { messages, input } = bodies[0] as unknown as Record<
      'messages' | 'input',
      { role: string; content: object[] }[]
    >;
    const user = (messages ?? input).find(({ role }) => role === 'user');
    expect(user?.content).toMatchObject(FILE_SHAPES[name as keyof typeof FILE_SHAPES]);
  });

  it('R6 files that the provider does not accept are replaced by a note, and others are sent', async () => {
    vi.stubEnv('OPENAI_BASE_URL', url);
    const file = (mediaType: string, filename?: string) => ({
      type: 'file' as const,
      mediaType,
      ...(filename !== undefined && { filename }),
      url: `data:${mediaType};base64,aGVsbG8=`,
    });
    const parts = [file('application/msword', 'a.doc'), file('audio/ogg'), file('image/png')];
    await stepOf(model(), [{ id: 'msg_1', role: 'user', parts }]);
    expect(bodies).toHaveLength(1);
    const sent = JSON.stringify(bodies[0]);
    expect(sent).toContain(String.raw`[file \"a.doc\" of type application/msword: this model cannot read it]`);
    expect(sent).toContain('[file of type audio/ogg: this model cannot read it]');
    expect(sent.match(/aGVsbG8=/g)).toHaveLength(1);
  });
});

describe('Anthropic', () => {
  const model = () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }).resolve('anthropic/claude-test');
  const block = (index: number, content_block: object, ...deltas: object[]): Event[] => [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];
  const message = (usage: object) => ({
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'claude-test',
    content: [],
    usage,
  });
  const cached = { input_tokens: 10, cache_read_input_tokens: 500, cache_creation_input_tokens: 90, output_tokens: 1 };

  beforeEach(() => {
    events = [
      { type: 'message_start', message: message(cached) },
      ...block(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: 'hm' },
        { type: 'signature_delta', signature: 'sig' },
      ),
      ...block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'I will write.' }),
      ...block(
        2,
        { type: 'tool_use', id: 'toolu_1', name: 'write_file', input: {} },
        { type: 'input_json_delta', partial_json: '{"path":' },
        { type: 'input_json_delta', partial_json: '"a"}' },
      ),
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: null },
        usage: { output_tokens: 40, output_tokens_details: { thinking_tokens: 15 } },
      },
      { type: 'message_stop' },
    ];
  });

  it('U1 cache reads, cache writes and thinking are counted separately', async () => {
    const { result } = await stepOf(model());
    expect(result?.usage).toEqual({ input: 10, output: 25, reasoning: 15, cache_read: 500, cache_write: 90 });
    expect(result?.toolCalls).toEqual([{ toolCallId: 'call_ours', toolName: 'write_file', input: { path: 'a' } }]);
  });

  it('R1 signed reasoning is sent back unchanged, with the tool call under our id', async () => {
    const { chunks } = await stepOf(model());
    const signed = chunks.findLast((chunk) => chunk.type.startsWith('reasoning') && 'providerMetadata' in chunk);
    expect(signed).toMatchObject({ providerMetadata: { anthropic: { signature: 'sig' } } });
    await stepOf(
      model(),
      withAnswer([
        { type: 'reasoning', text: 'hm', providerMetadata: { anthropic: { signature: 'sig' } } },
        { type: 'text', text: 'I will write.' },
        {
          type: 'tool-write_file',
          toolCallId: 'call_ours',
          state: 'output-available',
          input: { path: 'a' },
          output: 1,
        },
      ]),
    );
    expect(bodies.at(-1)?.['messages']).toMatchObject([
      { role: 'user' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig' },
          { type: 'text', text: 'I will write.' },
          { type: 'tool_use', id: 'call_ours', name: 'write_file', input: { path: 'a' } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'call_ours', cache_control: { type: 'ephemeral' } }],
      },
    ]);
  });

  it('P1 marks the system text and the last message for the provider’s cache', async () => {
    await stepOf(model());
    const cache_control = { type: 'ephemeral' };
    expect(bodies[0]?.['system']).toEqual([{ type: 'text', text: 'Be kind.', cache_control }]);
    expect(bodies[0]?.['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hello', cache_control }] },
    ]);
  });

  it('P1 the next request has the same bytes and the mark of the one before, after which a step may add more blocks than the provider looks back', async () => {
    const written = (step: number): UIMessage['parts'] => [
      { type: 'step-start' },
      ...Array.from({ length: 11 }, (_, at) => ({
        type: 'tool-write_file' as const,
        toolCallId: `call_${step}_${at}`,
        state: 'output-available' as const,
        input: { path: `${at}` },
        output: 1,
      })),
    ];
    const answer = (parts: UIMessage['parts']): UIMessage => ({ id: 'msg_2', role: 'assistant', parts });
    const next: UIMessage = { id: 'msg_3', role: 'user', parts: [{ type: 'text', text: 'and now?' }] };
    const done: UIMessage['parts'] = [{ type: 'step-start' }, { type: 'text', text: 'Written.' }];
    await stepOf(model());
    await stepOf(model(), [...hello, answer(written(1))]);
    await stepOf(model(), [...hello, answer([...written(1), ...written(2)])]);
    await stepOf(model(), [...hello, answer([...written(1), ...written(2), ...done]), next]);
    const blocks = bodies.map(({ messages }) =>
      (messages as { content: object[] }[]).flatMap(({ content }) => content),
    );
    const marked = blocks.map((all) => all.flatMap((one, at) => ('cache_control' in one ? [at + 1] : [])));
    expect(marked).toEqual([[1], [1, 23], [23, 45], [45, 47]]);
    // Marks are not part of what is cached.
    const bytesOf = (at: number, length: number) => {
      const { system, tools } = bodies[at]!;
      const all = [tools, system, blocks[at]!.slice(0, length)];
      return JSON.stringify(all, (key, value: unknown) => (key === 'cache_control' ? undefined : value));
    };
    for (const [at, { length }] of blocks.slice(0, -1).entries())
      expect(bytesOf(at + 1, length)).toBe(bytesOf(at, length));
  });

  it('R6 an overload while streaming is reported as Overloaded', async () => {
    events = [
      { type: 'message_start', message: message(cached) },
      ...block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'Hel' }).slice(0, 2),
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    ];
    const { chunks, error } = await stepOf(model());
    expect(chunks.map(({ type }) => type)).toEqual(['start-step', 'text-start', 'text-delta']);
    expect(classifyProviderError(error)).toMatchObject({ kind: 'retryable', code: 'Overloaded' });
  });
});

describe('OpenAI', () => {
  it('T3 stores nothing at the provider, whose copies would have other tool call ids', async () => {
    vi.stubEnv('OPENAI_BASE_URL', url);
    const response = { id: 'r', created_at: 1, model: 'gpt-5', output: [] };
    const call = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'write_file',
      arguments: '{"path":"a"}',
    };
    const usage = {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 60 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 20 },
    };
    events = [
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item: { ...call, arguments: '' } },
      { type: 'response.function_call_arguments.delta', item_id: 'fc_1', output_index: 0, delta: '{"path":"a"}' },
      { type: 'response.output_item.done', output_index: 0, item: { ...call, status: 'completed' } },
      { type: 'response.completed', response: { ...response, incomplete_details: null, usage } },
    ];
    const model = createModels({ openaiApiKey: 'k' }).resolve('openai/gpt-5');
    const { chunks, result } = await stepOf(model);
    expect(result?.usage).toEqual({ input: 40, output: 10, reasoning: 20, cache_read: 60, cache_write: 0 });
    expect(result?.toolCalls).toEqual([{ toolCallId: 'call_ours', toolName: 'write_file', input: { path: 'a' } }]);
    const made = chunks.find((chunk) => chunk.type === 'tool-input-available');
    await stepOf(
      model,
      withAnswer([
        {
          type: 'tool-write_file',
          toolCallId: 'call_ours',
          state: 'output-available',
          input: { path: 'a' },
          output: 1,
          callProviderMetadata: made?.providerMetadata ?? {},
        },
      ]),
    );
    expect(bodies.at(-1)).toMatchObject({ store: false, include: ['reasoning.encrypted_content'] });
    const sent = bodies.at(-1)!['input'] as unknown[];
    expect(sent.slice(-2)).toMatchObject([
      { type: 'function_call', call_id: 'call_ours', name: 'write_file' },
      { type: 'function_call_output', call_id: 'call_ours' },
    ]);
  });
});

const CHAT_CHUNK = { type: 'chunk', id: 'c', object: 'chat.completion.chunk', created: 1, model: 'gpt-test' };
const RESPONSE = { id: 'r', created_at: 1, model: 'gpt-test', output: [], incomplete_details: null };
const CLAUDE = { id: 'm', type: 'message', role: 'assistant', model: 'claude-test', content: [] };

/** What the APIs report of a call, with every field that they document. */
it.each<[string, () => ReturnType<typeof createModels>, string, Event[], object, number]>([
  [
    'OpenAI’s chat completions',
    () => createModels({ providers: { acme: chatCompletions() } }),
    'acme/gpt-test',
    [
      { ...CHAT_CHUNK, choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }] },
      { ...CHAT_CHUNK, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      {
        ...CHAT_CHUNK,
        choices: [],
        usage: {
          prompt_tokens: 2_006,
          completion_tokens: 300,
          total_tokens: 2_306,
          prompt_tokens_details: { cached_tokens: 1_920, audio_tokens: 0 },
          completion_tokens_details: {
            reasoning_tokens: 128,
            audio_tokens: 0,
            accepted_prediction_tokens: 0,
            rejected_prediction_tokens: 0,
          },
        },
      },
    ],
    { input: 86, output: 172, reasoning: 128, cache_read: 1_920, cache_write: 0 },
    2_306,
  ],
  [
    'OpenAI’s responses',
    () => createModels({ openaiApiKey: 'k' }),
    'openai/gpt-test',
    [
      { type: 'response.created', response: RESPONSE },
      {
        type: 'response.completed',
        response: {
          ...RESPONSE,
          usage: {
            input_tokens: 328,
            input_tokens_details: { cached_tokens: 256 },
            output_tokens: 52,
            output_tokens_details: { reasoning_tokens: 12 },
            total_tokens: 380,
          },
        },
      },
    ],
    { input: 72, output: 40, reasoning: 12, cache_read: 256, cache_write: 0 },
    380,
  ],
  [
    'Anthropic’s messages',
    () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }),
    'anthropic/claude-test',
    [
      {
        type: 'message_start',
        message: {
          ...CLAUDE,
          usage: {
            input_tokens: 50,
            cache_creation_input_tokens: 248,
            cache_read_input_tokens: 1_800,
            cache_creation: { ephemeral_5m_input_tokens: 148, ephemeral_1h_input_tokens: 100 },
            output_tokens: 1,
            service_tier: 'standard',
          },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: {
          input_tokens: 50,
          cache_creation_input_tokens: 248,
          cache_read_input_tokens: 1_800,
          output_tokens: 503,
        },
      },
      { type: 'message_stop' },
    ],
    { input: 50, output: 503, reasoning: 0, cache_read: 1_800, cache_write: 248 },
    50 + 248 + 1_800 + 503,
  ],
])('U1 %s report five numbers, whose sum is the total', async (_name, models, ref, recorded, usage, total) => {
  vi.stubEnv('OPENAI_BASE_URL', url);
  events = recorded;
  const { result } = await stepOf(models().resolve(ref));
  expect(result?.usage).toEqual(usage);
  expect(totalTokens(result!.usage)).toBe(total);
});
