import { APICallError } from 'ai';
import { parsedJson } from '../../domain/parsed-json.ts';
import { objectOf, type ProviderEvent } from '../provider-stream/provider-answer-reader.ts';
import { asUnreadable, streamErrorOf } from '../provider-stream/unreadable-answer.ts';

/** What is known about a failed model call. Only `message` may contain content. */
export interface ProviderReport {
  /** HTTP status of the answer. */
  status?: number;
  /** The provider's id of the request. */
  request_id?: string;
  /** The provider's error type or code, or the system's code of a failed connection. */
  error_type?: string;
  message: string;
}

const REQUEST_IDS = ['request-id', 'x-request-id', 'x-amzn-requestid', 'x-goog-request-id', 'apim-request-id'];
/** A longer body is a page of a proxy. */
const MAX_BODY = 64 * 1024;
/** Anything else may be content. */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
const ID = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;

/** Reads what a provider's error says, whatever was thrown. */
export function providerReport(error: unknown): ProviderReport {
  const said = streamErrorOf(error);
  const message = messageOf(asUnreadable(error) ?? said ?? error);
  const headers = APICallError.isInstance(error) ? error.responseHeaders : undefined;
  const headerId = REQUEST_IDS.map((name) => headers?.[name]).find((id) => id !== undefined);
  if (said !== undefined) {
    const body = objectOf(said.data) ?? {};
    const requestId = headerId ?? body['request_id'];
    return report(message, { status: said.statusCode, requestId, types: [said.type, ...typesOf(body), said.code] });
  }
  if (APICallError.isInstance(error)) {
    const body = bodyOf(error);
    const requestId = headerId ?? body['request_id'];
    return report(message, { status: error.statusCode, requestId, types: [...typesOf(body), ...systemCodes(error)] });
  }
  return report(message, { status: undefined, requestId: undefined, types: systemCodes(error) });
}

/** What is known of an answer whose finish reason means a failure. */
export function finishReport(finishReason: string, raw: string | undefined): ProviderReport {
  const message = `finish reason ${JSON.stringify(raw ?? finishReason)}`;
  return report(message, { status: undefined, requestId: undefined, types: [raw, finishReason] });
}

function report(
  message: string,
  said: { status: number | undefined; requestId: unknown; types: unknown[] },
): ProviderReport {
  const { status, requestId, types } = said;
  const type = types.find((each): each is string => typeof each === 'string' && NAME.test(each));
  return {
    // A connection that breaks in mid-stream has the status of the successful answer.
    ...(status !== undefined && status >= 400 && { status }),
    ...(typeof requestId === 'string' && ID.test(requestId) && { request_id: requestId }),
    ...(type !== undefined && { error_type: type }),
    message,
  };
}

/** The parsed body of an error's answer; empty if it is no JSON object. */
function bodyOf({ data, responseBody = '' }: APICallError): ProviderEvent {
  if (data !== undefined) return objectOf(data) ?? {};
  return responseBody.length > MAX_BODY ? {} : (objectOf(parsedJson(responseBody)) ?? {});
}

/** Type and code of `{ error: { type, code } }`, as most providers answer. */
function typesOf(body: ProviderEvent): unknown[] {
  const error = objectOf(body['error']);
  return [error?.['type'], error?.['code'], error?.['status']];
}

/** Codes of the error and its causes, such as ECONNREFUSED. */
function systemCodes(error: unknown): unknown[] {
  const codes: unknown[] = [];
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    codes.push((at as NodeJS.ErrnoException).code);
  }
  return codes;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const { message, cause } = error;
  return cause instanceof Error && !message.includes(cause.message) ? `${message}: ${messageOf(cause)}` : message;
}
