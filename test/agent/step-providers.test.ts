// A step over the providers' own protocols: OpenAI's responses and Anthropic's messages, from a small server, because the
// scripted one has chat completions only.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { UIMessage } from 'ai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createModels } from '../../agent/models.ts';
import { classifyProviderError } from '../../agent/provider-errors.ts';
import { collect, hello, writeFile } from './step-play.ts';
import { streamStep } from '../../agent/step.ts';

type Event = { type: string } & Record<string, unknown>;
type Body = Record<string, unknown> & { tools: unknown[] };

let server: Server;
let events: Event[] = [];
let bodies: Body[] = [];
let url = '';

beforeEach(async () => {
  bodies = [];
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
    streamStep({ model, system: 'Be kind.', messages, tools: [writeFile], signal, newToolCallId: () => 'call_ours' }),
  );
}

/** The conversation with an answer that called a tool, as it is stored. */
function withAnswer(parts: UIMessage['parts']): UIMessage[] {
  return [...hello, { id: 'msg_2', role: 'assistant', parts: [{ type: 'step-start' }, ...parts] }];
}

describe.each([
  ['OpenAI', () => createModels({ openaiApiKey: 'k' }).resolve('openai/gpt-test')],
  ['Anthropic', () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }).resolve('anthropic/claude-test')],
  ['a compatible server', () => createModels({ openaiBaseUrl: url }).resolve('openai/test')],
])('%s', (_name, model) => {
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
