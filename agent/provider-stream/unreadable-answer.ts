import {
  InvalidArgumentError,
  InvalidResponseDataError,
  JSONParseError,
  StreamProviderError,
  TypeValidationError,
} from 'ai';
import { parsedJson } from '../../domain/parsed-json.ts';
import { objectOf, type ProviderEvent } from './provider-answer-reader.ts';
import { statusOfCode, statusOfText } from './status-of-text.ts';

/** Of an answer that cannot be read, in bytes of UTF-8. */
const SHOWN = 200;

/** The provider has answered with something that is no stream of its protocol. Repeating the call would not help. */
export class UnreadableAnswerError extends Error {
  /** @param answer its beginning is in the message, which is content */
  constructor(answer: string) {
    const shown = Buffer.from(answer.slice(0, SHOWN)).subarray(0, SHOWN).toString();
    super(`the provider's answer is no stream that this program knows: ${shown}`);
    this.name = 'UnreadableAnswerError';
  }
}

/** The error, or its cause, if it says that an answer cannot be read: also by the schemas of the SDKs. */
export function asUnreadable(error: unknown): UnreadableAnswerError | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    if (at instanceof UnreadableAnswerError) return at;
    // Of the request, which was not made.
    if (InvalidArgumentError.isInstance(at)) return undefined;
    if (InvalidResponseDataError.isInstance(at) && !hasNoEnd(at))
      return new UnreadableAnswerError(JSON.stringify(at.data) ?? '');
    if (JSONParseError.isInstance(at)) return new UnreadableAnswerError(at.text);
    if (TypeValidationError.isInstance(at)) return new UnreadableAnswerError(JSON.stringify(at.value) ?? '');
  }
  return undefined;
}

/** Whether the SDK says that a stream ended without its finish reason. */
export function hasNoEnd(error: unknown): boolean {
  return InvalidResponseDataError.isInstance(error) && error.message.includes('finish reason');
}

/** The provider's error, if this is one from a stream, or was caused by one: the SDKs wrap it. */
export function streamErrorOf(error: unknown): StreamProviderError | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    if (StreamProviderError.isInstance(at)) return at;
  }
  return undefined;
}

/** The error that an event, or a body, tells of. */
export function providerError(event: ProviderEvent): StreamProviderError {
  return new StreamProviderError({ ...saidBy(event), data: event });
}

/** The event with which all three protocols tell of an error. */
export function errorEvent({ message, type = 'error', code }: StreamProviderError): ProviderEvent {
  const said = { type, message, code: code === undefined ? null : `${code}`, param: null };
  return { type: 'error', sequence_number: 0, error: said };
}

/** The error of an answer that is no stream: what it says if that is known, else that it cannot be read. */
export function errorOfBody(body: string): Error {
  const event = objectOf(parsedJson(body.replace(/^error:/, '')));
  if (event === undefined) return new UnreadableAnswerError(body);
  const { message, type, code } = saidBy(event);
  const isError = ['error', 'detail', 'message', 'error_code'].some((name) => name in event);
  const isKnown = statusOfCode(code) !== undefined || statusOfText(`${type} ${code} ${message}`) !== undefined;
  return isError && isKnown ? providerError(event) : new UnreadableAnswerError(body);
}

/**
 * What the body of an error says, without a copy of the request that may be in it, and which field of the request it names, such as
 * `temperature`.
 */
export function saidInBody(body: string): { text: string; param?: string } {
  const event = objectOf(parsedJson(body));
  if (event === undefined) return { text: body };
  const { message, type, code } = saidBy(event);
  const param = objectOf(event['error'])?.['param'];
  return { text: [type, code, message].join(' '), ...(typeof param === 'string' && { param }) };
}

interface Said {
  message: string;
  type?: string;
  code?: string | number;
}

/**
 * Of `{ error: { message, type, code } }`, `{ error: "…" }`, `{ response: { error } }`, `{ message, type, code }`,
 * `{ text, error_code }` and `{ detail }`, which is a text or a list of `{ loc, msg }`.
 */
function saidBy(event: ProviderEvent): Said {
  const given = event['error'] ?? objectOf(event['response'])?.['error'];
  const said = objectOf(given) ?? event;
  const { message, type, code = said['error_code'] ?? said['status'], text, detail } = said;
  const words = typeof given === 'string' ? given : (message ?? text ?? detailText(detail) ?? given ?? '');
  return {
    message: typeof words === 'string' ? words : JSON.stringify(words),
    ...(typeof type === 'string' && { type }),
    ...((typeof code === 'string' || typeof code === 'number') && { code }),
  };
}

function detailText(detail: unknown): unknown {
  if (!Array.isArray(detail)) return detail;
  return detail.map((each) => [objectOf(each)?.['loc'], objectOf(each)?.['msg']].join(' ')).join('; ');
}
