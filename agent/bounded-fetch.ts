import { MAX_ANSWER } from '../domain/answer-limit.ts';
import { AnswerTooLong } from './answer-size.ts';
import { heard } from './idle-limit.ts';

/** Longest event of a provider's stream, and longest body of an error, in bytes. JSON in JSON takes twice its length. */
const MAX_EVENT = 2 * MAX_ANSWER;

/**
 * `fetch` for model providers, whose SDKs keep an event in memory until it is complete: if an event is longer than
 * `MAX_EVENT`, the body of the response fails with `AnswerTooLong` and the connection is closed. Every byte that arrives ends
 * the silence of the call.
 */
export const boundedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const arrived = () => heard(init?.signal);
  arrived();
  if (response.body === null) return response;
  const { ok, status, statusText, headers } = response;
  return new Response(bounded(response.body, ok ? endOfEvents : () => 0, arrived), { status, statusText, headers });
};

/** `endOf` returns where the last complete event of some bytes ends; 0 if none does. `arrived` is called for all bytes. */
function bounded(
  body: ReadableStream<Uint8Array>,
  endOf: (bytes: Uint8Array) => number,
  arrived: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let incomplete = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        arrived();
        const end = endOf(value);
        incomplete = (end === 0 ? incomplete : 0) + value.length - end;
        if (incomplete > MAX_EVENT) {
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

/** An event ends with an empty line. An empty line that the network cuts in two is not seen; the next one is. */
function endOfEvents(bytes: Uint8Array): number {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return Math.max(buffer.lastIndexOf('\n\n'), buffer.lastIndexOf('\n\r\n')) + 1;
}
