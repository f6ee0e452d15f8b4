// Streams and answers of providers that differ from the specification, each with the right outcome. To be played against every provider
// package, also when one is upgraded: odd-streams.test.ts.
import type { RunErrorCode } from '../../domain/runs.ts';

export type Api = 'chat completions' | 'responses' | 'messages';

/** What comes of a step. */
export type Outcome =
  | { text: string; calls?: object[]; finish?: string; input?: number; output?: number }
  | { code: RunErrorCode; again: boolean; says?: RegExp; logs?: RegExp };

export interface OddStream {
  name: string;
  api: Api;
  /** Sent as given. */
  body: string;
  /** Default: closes. */
  connection?: 'stays open' | 'stays alive' | 'is cut';
  /** Default: 200. */
  status?: number;
  /** Default: text/event-stream. */
  type?: string;
  outcome: Outcome;
}

const WHOLE = { text: 'Hello' };
const AGAIN = { code: 'NetworkError', again: true } as const;
const BROKEN_OFF = { code: 'ProviderUnavailable', again: true } as const;
const WRITE = { toolName: 'write_file', input: { path: 'a' } };
const INPUT = '{"path":"a"}';

const data = (value: unknown) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const all = (...values: unknown[]) => values.map(data).join('');

// Chat completions.
const choice = (delta: object, finish_reason: unknown = null, more: object = {}) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});
const content = choice({ role: 'assistant', content: 'Hello' });
const stop = choice({}, 'stop');
const chatCall = (index: number, args: unknown, more: object = {}) =>
  choice({
    tool_calls: [{ index, id: 'L1', type: 'function', function: { name: 'write_file', arguments: args } }],
    ...more,
  });
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const counted = { ...WHOLE, input: 3, output: 4 };

const CHAT: Omit<OddStream, 'api'>[] = [
  { name: 'ends without a finish reason', body: all(content), outcome: AGAIN },
  ...['error', 'abort', 'insufficient_system_resource', 'moonlight'].map((reason) => ({
    name: `finishes with ${reason}`,
    body: all(content, choice({}, reason), '[DONE]'),
    outcome: BROKEN_OFF,
  })),
  {
    name: 'finishes with a word of another server',
    body: all(content, choice({}, 'EOS'), '[DONE]'),
    outcome: { ...WHOLE, finish: 'stop' },
  },
  {
    name: 'has an empty finish reason in each chunk',
    body: all(choice({ content: 'Hel' }, ''), choice({ content: 'lo' }, ''), stop, '[DONE]'),
    outcome: WHOLE,
  },
  { name: 'stays open after [DONE]', body: all(content, stop, '[DONE]'), connection: 'stays open', outcome: WHOLE },
  { name: 'is cut after its finish reason', body: all(content, stop), connection: 'is cut', outcome: WHOLE },
  {
    name: 'has a finish reason in each chunk',
    body: all(choice({ content: 'Hel' }, 'stop'), choice({ content: 'lo' }, 'stop'), '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has a finish reason in each chunk, and is cut',
    body: all(choice({ content: 'Hel' }, 'stop'), choice({ content: 'lo' }, 'stop')),
    connection: 'is cut',
    outcome: AGAIN,
  },
  { name: 'is done without a finish reason', body: all(content, '[DONE]'), outcome: { ...WHOLE, finish: 'stop' } },
  {
    name: 'is done without a finish reason after a call',
    body: all(chatCall(0, INPUT), '[DONE]'),
    outcome: { text: '', calls: [WRITE], finish: 'tool-calls' },
  },
  {
    name: 'reports usage without choices',
    body: all(content, stop, { id: 'x', object: 'chat.completion.chunk', usage }, '[DONE]'),
    outcome: counted,
  },
  {
    name: 'reports usage in strings',
    body: all(
      content,
      stop,
      {
        ...stop,
        choices: [],
        usage: { prompt_tokens: '3', completion_tokens: '4', total_tokens: 'seven', prompt_tokens_details: 'none' },
      },
      '[DONE]',
    ),
    outcome: counted,
  },
  { name: 'reports usage as a word', body: all(content, { ...stop, usage: 'much' }, '[DONE]'), outcome: WHOLE },
  {
    name: 'has an error after its finish reason',
    body: all(content, stop, { error: { message: 'late', code: 500 } }, '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has garbage after its finish reason',
    body: all(content, stop, '{"choices":[{', { choices: [{ delta: 'x' }] }, '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has an error that is null',
    body: all({ ...content, error: null }, { ...stop, error: null }, '[DONE]'),
    outcome: WHOLE,
  },
  { name: 'has null between its chunks', body: all('null', content, 'null', stop, '[DONE]'), outcome: WHOLE },
  {
    name: 'has unknown events',
    body: all({ type: 'ping' }, content, { object: 'queue', position: 3 }, stop, '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has a role of its own',
    body: all(choice({ role: 'ai', content: 'Hello' }), stop, '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has arguments as an object',
    body: all(chatCall(0, { path: 'a' }), choice({}, 'tool_calls'), '[DONE]'),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'has one call at two indexes',
    body: all(chatCall(0, INPUT), chatCall(1, INPUT), choice({}, 'tool_calls'), '[DONE]'),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'has one call twice, whole',
    body: all(chatCall(0, INPUT), chatCall(0, INPUT), choice({}, 'tool_calls'), '[DONE]'),
    outcome: { text: '', calls: [WRITE] },
  },
  ...[
    { begun: [0, 1], ended: [0, 1] },
    { begun: [1, 0], ended: [0, 1] },
    { begun: [0, 1, 2], ended: [2, 1, 0] },
  ].map(({ begun: first, ended: last }) => ({
    name: `has one call at the indexes ${first.join()}, in pieces that end at ${last.join()}`,
    body: all(
      ...first.map((index) => chatCall(index, '{"pa')),
      ...last.map((index) => choice({ tool_calls: [{ index, function: { arguments: 'th":"a"}' } }] })),
      choice({}, 'tool_calls'),
      '[DONE]',
    ),
    outcome: { text: '', calls: [WRITE] },
  })),
  {
    name: 'has three calls of one id',
    body: all(
      ...[0, 1, 2].map((index) => chatCall(index, '{"path":')),
      ...['a', 'b', 'c'].map((path, index) =>
        choice({ tool_calls: [{ index, function: { arguments: `"${path}"}` } }] }),
      ),
      choice({}, 'tool_calls'),
      '[DONE]',
    ),
    outcome: { text: '', calls: ['a', 'b', 'c'].map((path) => ({ toolName: 'write_file', input: { path } })) },
  },
  {
    name: 'has two calls of one id, of which the second ends first, and the first again',
    body: all(
      ...[0, 1, 2].map((index) => chatCall(index, '{"path":')),
      ...[1, 0, 2].map((index) =>
        choice({ tool_calls: [{ index, function: { arguments: index === 1 ? '"b"}' : '"a"}' } }] }),
      ),
      choice({}, 'tool_calls'),
      '[DONE]',
    ),
    outcome: { text: '', calls: [WRITE, { ...WRITE, input: { path: 'b' } }] },
  },
  {
    name: 'has one call twice at one index, in pieces',
    body: all(
      ...[0, 1].flatMap(() => [
        chatCall(0, '{"pa'),
        choice({ tool_calls: [{ index: 0, function: { arguments: 'th":"a"}' } }] }),
      ]),
      choice({}, 'tool_calls'),
      '[DONE]',
    ),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'has id and name in each piece of a call',
    body: all(...['{"path":', '"a","more":', '{}', '}'].map((piece) => chatCall(0, piece)), stop, '[DONE]'),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'repeats id and name in an empty piece at the end of a call',
    body: all(chatCall(0, INPUT), chatCall(0, ''), choice({}, 'tool_calls'), '[DONE]'),
    outcome: { text: '', calls: [WRITE] },
  },
  ...[
    { text: 'x', error_code: 50_001 },
    { object: 'error', message: 'x', code: 500 },
  ].map((error) => ({
    name: `has an error without "error": ${Object.keys(error).join()}`,
    body: all(content, error, '[DONE]'),
    outcome: BROKEN_OFF,
  })),
  {
    name: 'has an error that event names beside the data',
    body: `${all(content)}event: error\n${all({ message: 'x', code: 529 }, '[DONE]')}`,
    outcome: { code: 'Overloaded', again: true },
  },
  {
    name: 'has an error of the context as its first event',
    body: all({ object: 'error', message: "This model's maximum context length is 4096 tokens", code: 400 }),
    outcome: { code: 'ContextTooLong', again: false },
  },
  {
    name: 'has an error in a chunk with a finish reason',
    body: all(choice({ content: 'Hel' }, 'stop'), { error: { message: 'x', code: 500 } }, '[DONE]'),
    outcome: BROKEN_OFF,
  },
  {
    name: 'shows signs of life, and closes',
    body: all({ object: 'queue', position: 3 }, { type: 'ping' }),
    outcome: AGAIN,
  },
  { name: 'stays open after its finish reason', body: all(content, stop), connection: 'stays open', outcome: WHOLE },
  {
    name: 'stays open after its finish reason, with comments',
    body: all(content, stop),
    connection: 'stays alive',
    outcome: WHOLE,
  },
  {
    name: 'is stopped by a filter of its own',
    body: all(content, choice({}, 'SAFETY'), '[DONE]'),
    outcome: { text: 'Hello', finish: 'content-filter' },
  },
  {
    name: 'has a head of the wrong types',
    body: all({ ...content, created: '1', id: 7, model: null }, stop, '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has a call without a name',
    body: all(choice({ tool_calls: [{ index: 0, id: 'L1', function: { arguments: INPUT } }] }), stop, '[DONE]'),
    outcome: { code: 'UnreadableAnswer', again: false },
  },
  {
    name: 'has two calls of one id',
    body: all(chatCall(0, INPUT), chatCall(1, '{"path":"b"}'), choice({}, 'tool_calls'), '[DONE]'),
    outcome: { text: '', calls: [WRITE, { ...WRITE, input: { path: 'b' } }] },
  },
  {
    name: 'has an error of the key in a chunk',
    body: all({ error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } }),
    outcome: { code: 'ProviderUnauthorized', again: false },
  },
  {
    name: 'has an error as a word',
    body: all(content, { error: 'the engine is overloaded' }),
    outcome: { code: 'Overloaded', again: true },
  },
  {
    name: 'has an error with a status as its code',
    body: all(content, { ...choice({}, 'error'), error: { message: 'upstream', code: 502 } }),
    outcome: BROKEN_OFF,
  },
  {
    name: 'has half a chunk after its first words',
    body: all(content, '{"choices":[{"delta"'),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /\{"choices":\[\{"delta"$/ },
  },
  {
    name: 'has an error of the key after its first words',
    body: all(content, { error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } }),
    outcome: { code: 'ProviderUnauthorized', again: false },
  },
  {
    name: 'has a chunk that is none',
    body: all({ choices: [{ index: 0, delta: 'Hello' }] }, '[DONE]'),
    outcome: {
      code: 'UnreadableAnswer',
      again: false,
      says: /no stream that this program knows/,
      logs: /"delta":"Hello"/,
    },
  },
  {
    name: 'has half a chunk',
    body: data('{"choices":[{"delta"'),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /\{"choices":\[\{"delta"$/ },
  },
  {
    name: 'is a whole completion',
    type: 'application/json',
    body: JSON.stringify({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    }),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /"chat\.completion"/ },
  },
];

// Responses.
const response = { id: 'r', created_at: 1, model: 'm', output: [], incomplete_details: null };
const created = { type: 'response.created', response };
const message = { type: 'message', id: 'msg', role: 'assistant', status: 'in_progress', content: [] };
const spoken = [
  created,
  { type: 'response.output_item.added', output_index: 0, item: message },
  { type: 'response.output_text.delta', item_id: 'msg', output_index: 0, content_index: 0, delta: 'Hello' },
];
const said = [
  ...spoken,
  { type: 'response.output_item.done', output_index: 0, item: { ...message, status: 'completed' } },
];
const completed = (more: object = {}) => ({ type: 'response.completed', response: { ...response, ...more } });
const item = (args: unknown) => ({
  type: 'function_call',
  id: 'fc_1',
  call_id: 'L1',
  name: 'write_file',
  arguments: args,
});
const called = (args: unknown, output_index: number) => [
  { type: 'response.output_item.added', output_index, item: item('') },
  { type: 'response.output_item.done', output_index, item: { ...item(args), status: 'completed' } },
];

const RESPONSES: Omit<OddStream, 'api'>[] = [
  { name: 'ends without response.completed', body: all(...spoken), outcome: AGAIN },
  {
    name: 'has no empty line after response.completed',
    body: all(...said, completed()).trimEnd(),
    outcome: WHOLE,
  },
  {
    name: 'ends within response.completed',
    body: all(...said, completed())
      .trimEnd()
      .slice(0, -1),
    outcome: AGAIN,
  },
  {
    name: 'stays open after response.completed',
    body: all(...said, completed()),
    connection: 'stays open',
    outcome: WHOLE,
  },
  { name: 'is cut after response.completed', body: all(...said, completed()), connection: 'is cut', outcome: WHOLE },
  {
    name: 'reports usage in strings',
    body: all(...said, completed({ usage: { input_tokens: '3', output_tokens: '4', output_tokens_details: 'none' } })),
    outcome: counted,
  },
  { name: 'reports usage as a word', body: all(...said, completed({ usage: 'much' })), outcome: WHOLE },
  {
    name: 'has unknown events and null',
    body: all('null', created, { type: 'response.moonlight' }, ...said.slice(1), completed(), '[DONE]'),
    outcome: WHOLE,
  },
  {
    name: 'has items of unknown types',
    body: all(
      created,
      { type: 'response.output_item.added', output_index: 1, item: { type: 'moonlight', id: 'x' } },
      ...said.slice(1),
      completed(),
    ),
    outcome: WHOLE,
  },
  {
    name: 'names its events only beside the data',
    body: [...said, completed()].map(({ type, ...rest }) => `event: ${type}\n${data(rest)}`).join(''),
    outcome: WHOLE,
  },
  {
    name: 'fails',
    body: all(...spoken, {
      type: 'response.failed',
      response: { ...response, error: { code: 'server_error', message: 'x' } },
    }),
    outcome: BROKEN_OFF,
  },
  {
    name: 'fails without saying why',
    body: all(...spoken, { type: 'response.failed', response: { ...response, error: null } }),
    outcome: BROKEN_OFF,
  },
  {
    name: 'has an error of the quota',
    body: all(created, { type: 'error', code: 'insufficient_quota', message: 'x', param: null }),
    outcome: { code: 'ProviderRejected', again: false, says: /quota/ },
  },
  {
    name: 'has arguments as an object',
    body: all(created, ...called({ path: 'a' }, 0), completed()),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'has one call twice',
    body: all(created, ...called(INPUT, 0), ...called(INPUT, 1), completed()),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'is of another API',
    body: all(content, stop, '[DONE]'),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /chat\.completion\.chunk/ },
  },
];

// Messages.
const claude = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'c',
  content: [],
  stop_reason: null,
  stop_sequence: null,
};
const begun = { type: 'message_start', message: { ...claude, usage: { input_tokens: 3, output_tokens: 1 } } };
const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
const text = block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'Hello' });
const ended = (stop_reason: string, more: object = { usage: { output_tokens: 4 } }) => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  ...more,
});
const over = { type: 'message_stop' };
const use = (index: number, partial_json: unknown) =>
  block(
    index,
    { type: 'tool_use', id: 'L1', name: 'write_file', input: {} },
    { type: 'input_json_delta', partial_json },
  );

const MESSAGES: Omit<OddStream, 'api'>[] = [
  { name: 'shows signs of life, and closes', body: all({ type: 'ping' }), outcome: AGAIN },
  { name: 'ends within a text', body: all(begun, ...text.slice(0, 2)), outcome: AGAIN },
  { name: 'ends without a stop reason', body: all(begun, ...text), outcome: AGAIN },
  { name: 'stops for an unknown reason', body: all(begun, ...text, ended('moonlight'), over), outcome: BROKEN_OFF },
  { name: 'ends without message_stop', body: all(begun, ...text, ended('end_turn')), outcome: counted },
  {
    name: 'is cut before message_stop',
    body: all(begun, ...text, ended('end_turn')),
    connection: 'is cut',
    outcome: counted,
  },
  {
    name: 'stays open after message_stop',
    body: all(begun, ...text, ended('end_turn'), over),
    connection: 'stays open',
    outcome: counted,
  },
  {
    name: 'reports usage in strings',
    body: all(begun, ...text, ended('end_turn', { usage: { output_tokens: '4' } }), over),
    outcome: counted,
  },
  {
    name: 'reports no usage',
    body: all({ type: 'message_start', message: claude }, ...text, ended('end_turn', {}), over),
    outcome: { ...WHOLE, input: 0, output: 0 },
  },
  {
    name: 'has an error after its stop reason',
    body: all(begun, ...text, ended('end_turn'), { type: 'error', error: { type: 'api_error', message: 'late' } }),
    outcome: WHOLE,
  },
  {
    name: 'has unknown events, blocks and deltas, and null',
    body: all(
      'null',
      begun,
      { type: 'moonlight' },
      ...block(0, { type: 'moonlight', phase: 1 }, { type: 'text_delta', text: 'no' }),
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'moonlight_delta', phase: 2 } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hello' } },
      { type: 'content_block_stop', index: 1 },
      ended('end_turn'),
      over,
    ),
    outcome: counted,
  },
  {
    name: 'has arguments as an object',
    body: all(begun, ...use(0, { path: 'a' }), ended('tool_use'), over),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'has one call twice',
    body: all(begun, ...use(0, INPUT), ...use(1, INPUT), ended('tool_use'), over),
    outcome: { text: '', calls: [WRITE] },
  },
  {
    name: 'is of another API',
    body: all(content, stop, '[DONE]'),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /chat\.completion\.chunk/ },
  },
];

const JSON_TYPE = 'application/json';
const json = (error: object) => ({ type: JSON_TYPE, body: JSON.stringify({ error }) });

/** Answers that are no stream. */
const ANSWERS: Omit<OddStream, 'api'>[] = [
  {
    name: 'an error of the key with status 200',
    ...json({ message: 'Incorrect API key provided', type: 'invalid_request_error', code: 'invalid_api_key' }),
    outcome: { code: 'ProviderUnauthorized', again: false },
  },
  {
    name: 'an error of the model with status 200',
    ...json({ message: 'The model `m` does not exist', code: 'model_not_found' }),
    outcome: { code: 'ProviderRejected', again: false, says: /does not know this model/ },
  },
  {
    name: 'an error of the context with status 200',
    ...json({ message: 'the prompt is too long', type: 'invalid_request_error' }),
    outcome: { code: 'ContextTooLong', again: false },
  },
  {
    name: 'an error of the quota with status 200',
    ...json({ message: 'You exceeded your current quota', code: 429 }),
    outcome: { code: 'ProviderRejected', again: false, says: /quota/ },
  },
  {
    name: 'an unknown error with status 200',
    ...json({ message: 'moonlight' }),
    outcome: { code: 'UnreadableAnswer', again: false, logs: /moonlight/ },
  },
  {
    name: 'a page with status 200',
    type: 'text/html',
    body: `<html>\n${'x'.repeat(500)}</html>`,
    outcome: {
      code: 'UnreadableAnswer',
      again: false,
      says: /no stream that this program knows/,
      logs: /<html>\nx{193}$/,
    },
  },
  {
    name: 'a page that takes long to end',
    type: 'text/html',
    body: `<html>${'x'.repeat(100_000)}`,
    connection: 'stays open',
    outcome: { code: 'UnreadableAnswer', again: false },
  },
  {
    name: 'a stream that says it is text',
    type: 'text/plain',
    body: all({ type: 'moonlight', candidates: [] }),
    outcome: { code: 'UnreadableAnswer', again: false },
  },
  { name: 'nothing', body: '', outcome: AGAIN },
  {
    name: 'an error that a line tells of',
    type: 'text/plain',
    body: 'error: {"code":400,"message":"the prompt is too long"}',
    outcome: { code: 'ContextTooLong', again: false },
  },
  {
    name: 'a refused image, with 404',
    status: 404,
    ...json({ message: 'No endpoints found that support image input', code: 404 }),
    outcome: { code: 'ProviderRejected', again: false, says: /without files/ },
  },
  {
    name: 'a server that is busy, with status 200',
    ...json({ message: 'The server is busy, please try again later' }),
    outcome: { code: 'ProviderUnavailable', again: true },
  },
  {
    name: 'a wrong path',
    status: 404,
    type: 'text/plain',
    body: '404 page not found',
    outcome: { code: 'ProviderRejected', again: false, says: /address is wrong/ },
  },
  {
    name: 'a wrong path, as a page',
    status: 404,
    type: 'text/html',
    body: '<!DOCTYPE html><title>The new model of our shop</title>',
    outcome: { code: 'ProviderRejected', again: false, says: /address is wrong/ },
  },
  {
    name: 'an unknown model',
    status: 404,
    ...json({ message: 'The model `m` does not exist', type: 'invalid_request_error' }),
    outcome: { code: 'ProviderRejected', again: false, says: /does not know this model/ },
  },
];

const of = (api: Api, streams: Omit<OddStream, 'api'>[]): OddStream[] => streams.map((each) => ({ ...each, api }));

export const ODD_STREAMS: readonly OddStream[] = [
  ...of('chat completions', [...CHAT, ...ANSWERS]),
  ...of('responses', [...RESPONSES, ...ANSWERS]),
  ...of('messages', [...MESSAGES, ...ANSWERS]),
];
