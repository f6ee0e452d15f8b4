// perdure/chat: for front ends with the AI SDK's useChat. Needs a browser only.
import { APICallError, DefaultChatTransport, type UIMessage, type UIMessageChunk } from 'ai';
import { type ErrorCode, isErrorCode } from '../domain/errors.ts';
import { parsedJson } from '../domain/parsed-json.ts';

export { sendWhenAnswered } from '../domain/answered.ts';

/** A refusal of the API: problem details (RFC 9457). */
export interface Problem {
  /** `urn:perdure:error:<code>` */
  type: string;
  title: string;
  /** Of HTTP. */
  status: number;
  /** For people: what is wrong, and what to do. */
  detail: string;
  code: ErrorCode;
  /** The invalid fields, such as `messages[0].parts[1].url`. */
  errors?: { field: string; expected: string }[];
}

/**
 * The problem that a request was refused with.
 * @param error what useChat, its transport or the AI SDK reports, or an Error whose message is the body of a response
 * @returns undefined if it is no answer of the API: the server was not reached, a proxy answered, or the turn itself failed,
 * whose error has its words as the message
 */
export function problemOf(error: unknown): Problem | undefined {
  if (!(error instanceof Error)) return undefined;
  const body = parsedJson(APICallError.isInstance(error) ? (error.responseBody ?? '') : error.message);
  if (typeof body !== 'object' || body === null) return undefined;
  const { code, detail, status } = body as Partial<Problem>;
  const isProblem = typeof code === 'string' && isErrorCode(code) && typeof detail === 'string';
  return isProblem && typeof status === 'number' ? (body as Problem) : undefined;
}

/**
 * DefaultChatTransport of the AI SDK, for which an answer that was aborted, by whomever, ends as after useChat's own `stop`:
 * `onFinish` gets `isAbort: true`, and nothing is sent automatically. The AI SDK takes an `abort` chunk for an end like others.
 */
export class PerdureChatTransport<Message extends UIMessage = UIMessage> extends DefaultChatTransport<Message> {
  protected override processResponseStream(stream: ReadableStream<Uint8Array>): ReadableStream<UIMessageChunk> {
    return endingInAbort(super.processResponseStream(stream));
  }
}

/** The chunks; after `abort` an AbortError, by which the AI SDK knows an abort. */
function endingInAbort(chunks: ReadableStream<UIMessageChunk>): ReadableStream<UIMessageChunk> {
  const reader = chunks.getReader();
  let isAborted = false;
  return new ReadableStream(
    {
      // An error drops what is not read yet, so it comes when the chunk has been read.
      async pull(controller) {
        if (isAborted) {
          reader.cancel().catch(() => {});
          throw new DOMException('The answer was aborted.', 'AbortError');
        }
        const { done, value } = await reader.read();
        if (done) return controller.close();
        isAborted = value.type === 'abort';
        return controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
