// Conversations in memory with strict providers, over each of their APIs: what one of them refuses once, or answers without a
// word, does not make later turns fail.
import { mkdtempSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { UIMessage, UIMessageChunk } from 'ai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { type MemorySession, memorySession } from '../../agent/memory/memory-session.ts';
import { run } from '../../agent/memory/run.ts';
import { createModels } from '../../agent/models/models.ts';
import { currentTurn } from '../../agent/scripted/current-turn.ts';
import { scriptModel } from '../../agent/scripted/script-model.ts';
import type { ChatMessage } from '../../tools/test-kit/model-server.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { readChat, type ReadMessage, refusalOf } from '../../tools/test-kit/strict-provider.ts';

type Body = Record<string, unknown>;
type Item = { type: string; role?: string; text?: string; content?: string | Item[]; source?: object };
/** What the provider answers: a text, a tool call after it, the end by a content filter, or a status. */
type Reply = { text?: string; call?: string; filtered?: true } | number;

interface Protocol {
  name: string;
  model: () => ReturnType<ReturnType<typeof createModels>['resolve']>;
  read(body: Body): ReadMessage[];
  /** The events of an answer, each with its `type`. */
  events(reply: Exclude<Reply, number>): object[];
}

let server: Server;
let url = '';
let replies: Reply[] = [];
/** What the provider was told, of each request. */
let told: ReadMessage[][] = [];
let protocol: Protocol;
let session: MemorySession;

beforeEach(async () => {
  [replies, told] = [[], []];
  server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const messages = protocol.read(JSON.parse(Buffer.concat(pieces).toString()) as Body);
      told.push(messages);
      const refusal = refusalOf(messages);
      const reply = refusal === undefined ? (replies.shift() ?? { text: 'fine' }) : 400;
      if (typeof reply === 'number') {
        response.writeHead(reply, { 'content-type': 'application/json' });
        response.end(
          JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: refusal ?? 'no' } }),
        );
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of protocol.events(reply)) response.write(`data: ${JSON.stringify(event)}\n\n`);
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  vi.stubEnv('OPENAI_BASE_URL', url);
  session = memorySession({ agent: AGENT, workspaceRoot: mkdtempSync(path.join(os.tmpdir(), 'perdure-strict-')) });
});

afterEach(() => {
  vi.unstubAllEnvs();
  server.close();
});

const AGENT = defineAgent({
  id: 'looker',
  description: 'Looks.',
  mode: 'primary',
  prompt: 'You look.',
  instructions: false,
  tools: [defineTool({ name: 'look', description: 'Looks.', input: z.object({}), execute: () => 'seen' })],
});

/** A turn. Returns the text of its answer, or its error. */
async function send(input: string | UIMessage, model = protocol.model()): Promise<string> {
  const chunks: UIMessageChunk[] = [];
  for await (const chunk of run(session, input, model)) chunks.push(chunk);
  const failed = chunks.find((chunk) => chunk.type === 'error');
  return failed?.errorText ?? chunks.map((chunk) => (chunk.type === 'text-delta' ? chunk.delta : '')).join('');
}

const withFile = (id: string, mediaType: string, content = PIXEL): UIMessage => ({
  id,
  role: 'user',
  parts: [
    { type: 'text', text: 'look' },
    { type: 'file', mediaType, filename: 'a', url: `data:${mediaType};base64,${content}` },
  ],
});

const CHUNK = { type: 'chunk', id: 'c', object: 'chat.completion.chunk', created: 1, model: 'test' };
const CHAT: Protocol = {
  name: 'chat completions',
  model: () => createModels({ openaiBaseUrl: url }).resolve('openai/test'),
  read: ({ messages }) => (messages as ChatMessage[]).filter(({ role }) => role !== 'system').map(readChat),
  events: ({ text, call, filtered }) => {
    const tool = { index: 0, id: call, type: 'function', function: { name: 'look', arguments: '{}' } };
    const delta = { role: 'assistant', content: text, ...(call !== undefined && { tool_calls: [tool] }) };
    const finish_reason = filtered ? 'content_filter' : call === undefined ? 'stop' : 'tool_calls';
    const choices = [
      { index: 0, delta },
      { index: 0, delta: {}, finish_reason },
    ];
    return choices.map((choice) => Object.assign({ choices: [choice] }, CHUNK));
  },
};

const USAGE = { input_tokens: 1, output_tokens: 1 };
const ANTHROPIC: Protocol = {
  name: 'Anthropic’s messages',
  model: () => createModels({ anthropicApiKey: 'k', anthropicBaseUrl: url }).resolve('anthropic/claude-test'),
  read: ({ messages }) =>
    (messages as Item[]).map(({ role, content }) => {
      const parts = content as Item[];
      const isCall = parts.some(({ type }) => type === 'tool_use');
      const isOutput = parts.every(({ type }) => type === 'tool_result');
      return readItems(isCall ? 'call' : isOutput ? 'tool' : (role as 'user'), parts);
    }),
  events: ({ text, call, filtered }) => {
    const message = { id: 'm', type: 'message', role: 'assistant', model: 'claude-test', content: [], usage: USAGE };
    const blocks = [
      ...(text === undefined
        ? []
        : [
            [
              { type: 'text', text: '' },
              { type: 'text_delta', text },
            ],
          ]),
      ...(call === undefined
        ? []
        : [
            [
              { type: 'tool_use', id: call, name: 'look', input: {} },
              { type: 'input_json_delta', partial_json: '{}' },
            ],
          ]),
    ];
    return [
      { type: 'message_start', message },
      ...blocks.flatMap(([content_block, delta], index) => [
        { type: 'content_block_start', index, content_block },
        { type: 'content_block_delta', index, delta },
        { type: 'content_block_stop', index },
      ]),
      {
        type: 'message_delta',
        delta: { stop_reason: filtered ? 'refusal' : call ? 'tool_use' : 'end_turn', stop_sequence: null },
        usage: USAGE,
      },
      { type: 'message_stop' },
    ];
  },
};

const CONTENT_FILTER = { reason: 'content_filter' };
const RESPONSE = { id: 'r', created_at: 1, model: 'gpt-test', output: [] };
const RESPONSES: Protocol = {
  name: 'OpenAI’s responses',
  model: () => createModels({ openaiApiKey: 'k' }).resolve('openai/gpt-test'),
  read: ({ input }) =>
    (input as Item[])
      .filter(({ role }) => role !== 'system' && role !== 'developer')
      .map(({ type, role, content = [] }) => {
        if (role === undefined) return readItems(type === 'function_call' ? 'call' : 'tool', []);
        return readItems(role as 'user', typeof content === 'string' ? [{ type: 'text', text: content }] : content);
      }),
  events: ({ text, call, filtered }) => {
    const said = { type: 'message', id: 'msg_1' };
    const called = { type: 'function_call', id: 'fc_1', call_id: call, name: 'look', arguments: '{}' };
    return [
      { type: 'response.created', response: RESPONSE },
      ...(text === undefined
        ? []
        : [
            { type: 'response.output_item.added', output_index: 0, item: said },
            { type: 'response.output_text.delta', item_id: said.id, delta: text },
            { type: 'response.output_item.done', output_index: 0, item: said },
          ]),
      ...(call === undefined
        ? []
        : [
            { type: 'response.output_item.added', output_index: 1, item: { ...called, arguments: '' } },
            { type: 'response.output_item.done', output_index: 1, item: { ...called, status: 'completed' } },
          ]),
      filtered
        ? { type: 'response.incomplete', response: { ...RESPONSE, incomplete_details: CONTENT_FILTER, usage: USAGE } }
        : { type: 'response.completed', response: { ...RESPONSE, incomplete_details: null, usage: USAGE } },
    ];
  },
};

function readItems(role: ReadMessage['role'], parts: readonly Item[]): ReadMessage {
  return {
    role,
    texts: parts.flatMap(({ text }) => (text === undefined ? [] : [text])),
    files: parts.flatMap(({ type }) => (/image|file|document/.test(type) ? [type] : [])),
  };
}

describe.each([CHAT, ANTHROPIC, RESPONSES])('$name', (each) => {
  beforeEach(() => void (protocol = each));

  it.each([
    ['image/png', PIXEL],
    ['image/svg+xml', 'PHN2Zy8+'],
    ['image/heic', 'AAAA'],
    ['image/png', ''],
  ])('R6 a refused %s: the next turn is answered without it', async (mediaType, content) => {
    expect(await send(withFile('msg_1', mediaType, content))).toContain('The model provider refused the request');
    expect(session.messages.at(-1)?.parts).toMatchObject([{ type: 'data-refused', data: { messages: ['msg_1'] } }]);
    expect(await send('hello')).toBe('fine');
    const text = `look\n\n[file "a" of type ${mediaType}: the model provider refused it]\n\nhello`;
    expect(told.at(-1)).toEqual([{ role: 'user', texts: [text], files: [] }]);
  });

  it('R6 answers without a word, and blank texts before a tool call, are left out of later turns', async () => {
    replies = [{ text: '\n\n' }, { text: '\n\n', call: 'call_1' }, { text: 'seen' }];
    await send('one');
    expect(await send('two')).toBe('\n\nseen');
    expect(await send('three')).toBe('fine');
    const heard = told.at(-1)!.map(({ role, texts }) => `${role}: ${texts.join()}`);
    expect(heard).toEqual(['user: one\n\ntwo', 'call: ', 'tool: ', 'assistant: seen', 'user: three']);
  });

  it('R6 after turns that failed, also after a tool call, roles alternate', async () => {
    replies = [401, { call: 'call_1' }, 401];
    await send('one');
    await send('two');
    expect(await send('three')).toBe('fine');
    expect(told.at(-1)!.map(({ role }) => role)).toEqual(['user', 'call', 'tool', 'assistant', 'user']);
  });

  it('R6 a turn that a content filter stops is left out of the next', async () => {
    replies = [{ call: 'call_1' }, { text: 'I must', filtered: true }];
    expect(await send('something bad')).toContain('content filter refused this turn');
    const data = { messages: [session.messages[0]!.id], whole: true };
    expect(session.messages.at(-1)!.parts.at(-1)).toMatchObject({ type: 'data-refused', data });
    expect(await send('hello')).toBe('fine');
    const text = '[a message that the content filter of the model provider refused]\n\nhello';
    expect(told.at(-1)).toEqual([{ role: 'user', texts: [text], files: [] }]);
  });

  it('R6 a message that was not answered before it is left out with it', async () => {
    replies = [401, { text: 'I must', filtered: true }];
    await send('something bad');
    expect(await send('hello')).toContain('content filter refused this turn');
    expect(await send('and now?')).toBe('fine');
    const note = '[a message that the content filter of the model provider refused]';
    expect(told.at(-1)).toEqual([{ role: 'user', texts: [`${note}\n\n${note}\n\nand now?`], files: [] }]);
  });

  it('R6 a message that is nothing but blank is answered, and so is the next', async () => {
    expect(await send(' \n')).toBe('fine');
    expect(await send('hello')).toBe('fine');
    expect(told.at(-1)!.map(({ texts }) => texts)).toEqual([['[blank message]'], ['fine'], ['hello']]);
  });
});

it('R6 a script gets the message of its turn alone, also after one that failed', async () => {
  const texts = ['', 'fine'];
  const script = scriptModel({
    ...{ provider: 'script', modelId: 'x', delayMs: 0 },
    replyTo: ({ prompt }) => {
      const text = texts.shift();
      if (!text) throw new TypeError('a bug');
      return { text: `${currentTurn(prompt).text}: ${text}`, calls: [] };
    },
  });
  const model = createModels({ providers: { script: () => script } }).resolve('script/x');
  expect(await send('one', model)).toContain('An internal error occurred');
  expect(await send('two', model)).toBe('two: fine');
});
