import { text as textOf } from 'node:stream/consumers';
import { MAX_ANSWER } from '../../domain/max-answer.ts';
import { parsedJson } from '../../domain/parsed-json.ts';
import { AnswerTooLongError } from './answer-size.ts';
import { AnthropicMessages } from './anthropic-messages.ts';
import { ChatCompletions } from './chat-completions.ts';
import { type Silence, silenceOf } from './idle-limit.ts';
import { mendedStream } from './mended-stream.ts';
import type { ProviderAnswerReader } from './provider-answer-reader.ts';
import { Responses } from './responses.ts';
import { saidInBody } from './unreadable-answer.ts';

/** Longest body of an error, in bytes. */
const MAX_BODY = 2 * MAX_ANSWER;

const PROTOCOLS: readonly (readonly [path: RegExp, reader: () => ProviderAnswerReader])[] = [
  [/\/chat\/completions$/, () => new ChatCompletions()],
  [/\/responses$/, () => new Responses()],
  [/\/messages$/, () => new AnthropicMessages()],
];

/**
 * `fetch` for model providers. What is odd in a streamed answer is mended, so that the SDKs can read it, and every byte that
 * arrives ends the silence of the call: see `mendedStream`. A request whose `stream_options` the server refuses is made
 * again without them.
 * @throws what `fetch` throws; the body of an error fails with `AnswerTooLongError` after 32 MiB
 */
export const providerFetch: typeof fetch = async (input, init) => {
  const silence = silenceOf(init?.signal);
  const response = await accepted(input, init, silence);
  silence.end();
  if (response.body === null) return response;
  const { status, statusText, headers } = response;
  const reader = response.ok && isStreamed(init) ? readerOf(input) : undefined;
  const longest = response.ok ? Infinity : MAX_BODY;
  const body = reader ? mendedStream(response.body, reader, silence) : bounded(response.body, longest, silence);
  return new Response(body, { status, statusText, headers });
};

function isStreamed(init: RequestInit | undefined): boolean {
  return typeof init?.body === 'string' && init.body.includes('"stream":true');
}

function readerOf(input: Parameters<typeof fetch>[0]): ProviderAnswerReader | undefined {
  const { pathname } = new URL(addressOf(input));
  return PROTOCOLS.find(([path]) => path.test(pathname))?.[1]();
}

/** Models, with their addresses, for which `stream_options` are refused. */
const withoutOptions = new Set<string>();
const MAX_MODELS = 1_000;

/** The answer of a server that accepts the request. */
async function accepted(
  input: Parameters<typeof fetch>[0],
  init: RequestInit | undefined,
  silence: Silence,
): Promise<Response> {
  const { body } = init ?? {};
  if (typeof body !== 'string' || !body.includes('"stream_options":{')) return fetch(input, init);
  const model = JSON.stringify([addressOf(input), /"model":"[^"]*"/.exec(body)?.[0]]);
  const without = () => fetch(input, { ...init, body: withoutStreamOptions(body) });
  if (withoutOptions.has(model)) return without();
  const response = await fetch(input, init);
  if ((response.status !== 400 && response.status !== 422) || response.body === null) return response;
  const { status, statusText, headers } = response;
  const said = await textOf(bounded(response.body, MAX_BODY, silence));
  if (!/stream_options|include_usage/.test(Object.values(saidInBody(said)).join(' '))) {
    return new Response(said, { status, statusText, headers });
  }
  const again = await without();
  if (withoutOptions.size >= MAX_MODELS) withoutOptions.clear();
  if (again.ok) withoutOptions.add(model);
  return again;
}

function addressOf(input: Parameters<typeof fetch>[0]): string {
  return input instanceof Request ? input.url : input.toString();
}

function withoutStreamOptions(body: string): string {
  const { stream_options: _options, ...rest } = parsedJson(body) as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** The body, which fails with `AnswerTooLongError` if it has more bytes than `longest`. */
function bounded(
  body: ReadableStream<Uint8Array>,
  longest: number,
  silence: Silence,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let length = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        silence.end();
        length += value.length;
        if (length > longest) {
          const error = new AnswerTooLongError();
          reader.cancel(error).catch(() => {});
          throw error;
        }
        return controller.enqueue(value as Uint8Array<ArrayBuffer>);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
