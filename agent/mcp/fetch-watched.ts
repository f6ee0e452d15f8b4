import { AsyncLocalStorage } from 'node:async_hooks';

// Answers of servers over HTTP: how large they may be, and when they end.

/** Most bytes of a message of a server, over HTTP and stdio, so that a server cannot fill this process's memory. */
export const MOST_MESSAGE_BYTES = 16 * 1024 ** 2;

/** The stream of a call's answer ended without the answer. */
export class BrokenAnswerError extends Error {}

/** A message of a server is too large. */
export class TooLargeAnswerError extends Error {
  constructor() {
    super(`a message of more than ${MOST_MESSAGE_BYTES} bytes`);
  }
}

/**
 * Called when the stream of a call's answer has ended, with what went wrong, if anything did: the SDK then waits for the answer
 * until its time limit.
 */
export const answerEnded = new AsyncLocalStorage<(error: unknown) => void>();

/** As `fetch`, for the SDK: limits what a server answers, and tells the call whose answer is streamed when the stream ends. */
export async function fetchWatched(url: string | URL, init?: RequestInit): Promise<Response> {
  const ended = answerEnded.getStore();
  const response = await fetch(url, init);
  const { body, status, statusText, headers } = response;
  const isRedirect = status >= 300 && status < 400;
  if (body === null || isRedirect) return response;
  const isStream = response.ok && headers.get('content-type')?.startsWith('text/event-stream') === true;
  const watched = limited(body, isStream ? eventSize() : wholeSize(), (error) => {
    if (isStream) ended?.(error);
  });
  return new Response(watched, { status, statusText, headers });
}

type Size = (piece: Uint8Array) => number;

/** The bytes of a stream. When the message that it is in becomes too large, reading fails and the stream is cancelled. */
function limited(
  body: ReadableStream<Uint8Array>,
  size: Size,
  ended: (error: unknown) => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        const { done, value } = await reader.read();
        if (value && size(value) > MOST_MESSAGE_BYTES) throw new TooLargeAnswerError();
        if (!done) return controller.enqueue(value);
        controller.close();
        ended(undefined);
      } catch (error) {
        controller.error(error);
        ended(error);
        reader.cancel(error).catch(() => {});
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function wholeSize(): Size {
  let bytes = 0;
  return (piece) => (bytes += piece.length);
}

const [LF, CR] = [10, 13];

/** Counts the bytes of the event that a stream is in; a blank line ends it. */
function eventSize(): Size {
  let bytes = 0;
  let isBlank = true;
  return (piece) => {
    let from = 0;
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, from)) {
      bytes = isBlank && isNothing(piece, from, end) ? 0 : bytes + end + 1 - from;
      isBlank = true;
      from = end + 1;
    }
    isBlank = isBlank && isNothing(piece, from, piece.length);
    bytes += piece.length - from;
    return bytes;
  };
}

/** Whether a part of a line is empty, but for the end of the line. */
function isNothing(piece: Uint8Array, from: number, end: number): boolean {
  return end === from || (end === from + 1 && piece[from] === CR);
}
