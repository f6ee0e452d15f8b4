// Readers of answers that disconnect on purpose and reconnect.
import { setTimeout as delay } from 'node:timers/promises';
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, type UIMessage, type UIMessageChunk } from 'ai';
import { eventsOf, type TestCaller } from '../../tools/test-kit/host.ts';
import { plain } from '../../tools/test-kit/reduce.ts';

/** One connection: its host, and after how many chunks it is closed; without a number it is read to the end. */
export interface Connection {
  through: TestCaller;
  after?: number;
}

/** What was received on a connection. */
export interface Read {
  status: number;
  chunks: UIMessageChunk[];
  /** The stream sent its final chunk. */
  ended: boolean;
}

const LAST = new Set(['finish', 'abort']);

/**
 * Opens a connection and reads it. A host whose database is slow for a moment answers 503: the reader comes back then, as the
 * header says.
 *
 * @throws {Error} for any other answer than a stream, or 204: no run is in flight
 */
export async function read(
  open: (caller: TestCaller) => Promise<Response>,
  { through, after }: Connection,
): Promise<Read> {
  let response = await open(through);
  while (response.status === 503) {
    await response.body?.cancel();
    await delay(Number(response.headers.get('retry-after')) * 1_000);
    response = await open(through);
  }
  const chunks: UIMessageChunk[] = [];
  if (response.status === 204) return { status: 204, chunks, ended: true };
  if (response.status !== 200) throw new Error(`expected a stream, not ${response.status}: ${await response.text()}`);
  if (after === 0) {
    await response.body?.cancel();
    return { status: 200, chunks, ended: false };
  }
  for await (const { data } of eventsOf(response)) {
    chunks.push(data as UIMessageChunk);
    if (chunks.length === after) break;
  }
  return { status: 200, chunks, ended: LAST.has(chunks.at(-1)?.type ?? '') };
}

/**
 * What `useChat` has of an answer that was cut off and resumed several times: the AI SDK's own chat with our URL.
 *
 * @returns its message; undefined: the run ended before the chat had a connection that was not cut off
 */
export async function resumedChat(
  session: string,
  user: string,
  urls: { url: string; after?: number }[],
): Promise<UIMessage | undefined> {
  let at = 0;
  let whole = false;
  const transport = new DefaultChatTransport({
    headers: { 'x-perdure-user': user },
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${urls[at]!.url}/api/chat/${id}/stream` }),
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      const { after } = urls[at]!;
      whole = response.status === 200 && after === undefined;
      return after === undefined || response.body === null ? response : cutOff(response, after);
    },
  });
  const chat = new Chat({ id: session, transport });
  for (; at < urls.length; at += 1) await chat.resumeStream();
  return whole ? plain(chat.messages.at(-1)) : undefined;
}

/** A response whose connection breaks after a number of events. */
function cutOff(response: Response, after: number): Response {
  let events = 0;
  const cut = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      controller.enqueue(bytes);
      events += new TextDecoder().decode(bytes).split('\n\n').length - 1;
      if (events >= after) controller.error(new TypeError('network error'));
    },
  });
  return new Response(response.body!.pipeThrough(cut), response);
}
