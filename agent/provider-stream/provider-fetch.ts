import { text as textOf } from 'node:stream/consumers';
import { MAX_ANSWER } from '../../domain/answer-limit.ts';
import { AnswerTooLong } from '../answer-size.ts';
import { heard } from '../idle-limit.ts';
import type { AnswerReader } from './answer-reader.ts';
import { ChatCompletions } from './chat-completions.ts';
import { Messages } from './messages.ts';
import { parsed } from './provider-error.ts';
import { readableStream } from './readable-stream.ts';
import { Responses } from './responses.ts';

/** Longest body of an error, in bytes. */
const MAX_BODY = 2 * MAX_ANSWER;

const PROTOCOLS: readonly (readonly [path: RegExp, reader: () => AnswerReader])[] = [
  [/\/chat\/completions$/, () => new ChatCompletions()],
  [/\/responses$/, () => new Responses()],
  [/\/messages$/, () => new Messages()],
];

/**
 * `fetch` for model providers. What is odd in a streamed answer is mended, so that the SDKs can read it, and every byte that
 * arrives ends the silence of the call: see `readableStream`. A request whose `stream_options` the server refuses is made
 * again without them.
 */
export const providerFetch: typeof fetch = async (input, init) => {
  const arrived = () => heard(init?.signal);
  const response = await accepted(input, init);
  arrived();
  if (response.body === null) return response;
  const { status, statusText, headers } = response;
  const reader = response.ok && isStreamed(init) ? readerOf(input) : undefined;
  const longest = response.ok ? Infinity : MAX_BODY;
  const body = reader ? readableStream(response.body, reader, arrived) : bounded(response.body, longest, arrived);
  return new Response(body, { status, statusText, headers });
};

function isStreamed(init: RequestInit | undefined): init is { body: string } {
  return typeof init?.body === 'string' && init.body.includes('"stream":true');
}

function readerOf(input: Parameters<typeof fetch>[0]): AnswerReader | undefined {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  return PROTOCOLS.find(([path]) => path.test(pathname))?.[1]();
}

/** Addresses of servers that refuse `stream_options`. */
const withoutOptions = new Set<string>();
const MAX_ADDRESSES = 1_000;

/** The answer of a server that accepts the request. */
async function accepted(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): Promise<Response> {
  const { body } = init ?? {};
  if (typeof body !== 'string' || !body.includes('"stream_options":{')) return fetch(input, init);
  const address = input instanceof Request ? input.url : input.toString();
  const without = () => fetch(input, { ...init, body: withoutStreamOptions(body) });
  if (withoutOptions.has(address)) return without();
  const response = await fetch(input, init);
  if (response.status !== 400 && response.status !== 422) return response;
  const { status, statusText, headers } = response;
  const said = response.body ? await textOf(bounded(response.body, MAX_BODY, () => heard(init?.signal))) : '';
  if (!/stream_options|include_usage/.test(said)) return new Response(said, { status, statusText, headers });
  if (withoutOptions.size >= MAX_ADDRESSES) withoutOptions.clear();
  withoutOptions.add(address);
  return without();
}

function withoutStreamOptions(body: string): string {
  const { stream_options: _options, ...rest } = parsed(body) as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** The body, which fails with `AnswerTooLong` if it has more bytes than `longest`. `arrived` is called for all bytes. */
function bounded(
  body: ReadableStream<Uint8Array>,
  longest: number,
  arrived: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let length = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        arrived();
        length += value.length;
        if (length > longest) {
          const error = new AnswerTooLong();
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
