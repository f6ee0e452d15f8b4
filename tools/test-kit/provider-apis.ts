// The answers of a model in the wire formats of the providers' APIs, event by event.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createModels, type ModelSettings } from '../../agent/models/models.ts';
import { providerFetch } from '../../agent/provider-stream/provider-fetch.ts';
import { event } from './event-server.ts';

/** How an answer ends. */
type Reason = 'stop' | 'length' | 'tool-calls';

/** An API of a provider; each function returns events. */
export interface ProviderApi {
  /** A provider at this address, and a model of it. */
  settings(url: string): { settings: ModelSettings; ref: string };
  open(): string[];
  text(text: string): string[];
  /** A tool call, at this place in the answer. `isCut`: the output ends within its arguments. */
  call(at: number, id: string, args: string, isCut?: boolean): string[];
  end(reason: Reason): string[];
}

const TOOL = 'write_file';

const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

const CHAT: Omit<ProviderApi, 'settings'> = {
  open: () => [],
  text: (text) => [chunk({ content: text })],
  call: (index, id, args) => [
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name: TOOL, arguments: args } }] }),
  ],
  end: (reason) => [chunk({}, reason.replace('-', '_')), 'data: [DONE]\n\n'],
};

const RESPONSE = { id: 'r', created_at: 1, model: 'm', output: [] };
const USAGE = { input_tokens: 1, output_tokens: 1 };

const RESPONSES: Omit<ProviderApi, 'settings'> = {
  open: () => [event({ type: 'response.created', response: RESPONSE })],
  text: (delta) => [
    event({ type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'msg', phase: null } }),
    event({ type: 'response.output_text.delta', item_id: 'msg', output_index: 0, content_index: 0, delta }),
  ],
  call: (output_index, call_id, args, isCut = false) => {
    const item = { type: 'function_call', id: `fc_${output_index}`, call_id, name: TOOL, arguments: '' };
    return [
      event({ type: 'response.output_item.added', output_index, item }),
      event({ type: 'response.function_call_arguments.delta', item_id: item.id, output_index, delta: args }),
      ...(isCut
        ? []
        : [
            event({
              type: 'response.output_item.done',
              output_index,
              item: { ...item, arguments: args, status: 'completed' },
            }),
          ]),
    ];
  },
  end: (reason) =>
    reason === 'length'
      ? [
          event({
            type: 'response.incomplete',
            response: { ...RESPONSE, incomplete_details: { reason: 'max_output_tokens' }, usage: USAGE },
          }),
        ]
      : [event({ type: 'response.completed', response: { ...RESPONSE, incomplete_details: null, usage: USAGE } })],
};

const block = (index: number, content_block: object, delta: object) => [
  event({ type: 'content_block_start', index, content_block }),
  event({ type: 'content_block_delta', index, delta }),
];
const STOP_REASONS = { stop: 'end_turn', length: 'max_tokens', 'tool-calls': 'tool_use' };

const MESSAGES: Omit<ProviderApi, 'settings'> = {
  open: () => [
    event({
      type: 'message_start',
      message: {
        ...{ id: 'm', type: 'message', role: 'assistant', model: 'c', content: [] },
        ...{ stop_reason: null, stop_sequence: null, usage: USAGE },
      },
    }),
  ],
  text: (text) => block(0, { type: 'text', text: '' }, { type: 'text_delta', text }),
  call: (index, id, partial_json) => [
    ...block(index, { type: 'tool_use', id, name: TOOL, input: {} }, { type: 'input_json_delta', partial_json }),
    event({ type: 'content_block_stop', index }),
  ],
  end: (reason) => [
    event({
      type: 'message_delta',
      delta: { stop_reason: STOP_REASONS[reason], stop_sequence: null },
      usage: { output_tokens: 1 },
    }),
    event({ type: 'message_stop' }),
  ],
};

/** The APIs by name. The tool of their calls is `write_file`. */
export const PROVIDER_APIS: Record<string, ProviderApi> = {
  'a compatible server': {
    ...CHAT,
    settings: (url) => ({ settings: { openaiBaseUrl: url }, ref: 'openai/m' }),
  },
  'OpenAI’s chat completions': {
    ...CHAT,
    settings: (url) => ({
      settings: { providers: { acme: createOpenAI({ apiKey: 'k', baseURL: url, fetch: providerFetch }).chat } },
      ref: 'acme/m',
    }),
  },
  'OpenAI’s responses': {
    ...RESPONSES,
    settings: (url) => ({
      settings: { providers: { acme: createOpenAI({ apiKey: 'k', baseURL: url }).responses } },
      ref: 'acme/m',
    }),
  },
  'Anthropic’s messages': {
    ...MESSAGES,
    settings: (url) => ({
      settings: { providers: { acme: createAnthropic({ apiKey: 'k', baseURL: url }) } },
      ref: 'acme/c',
    }),
  },
};

/** A model of an API. */
export function modelOf(api: ProviderApi, url: string) {
  const { settings, ref } = api.settings(url);
  return createModels(settings).resolve(ref);
}
