import { APICallError, LoadAPIKeyError, NoOutputGeneratedError } from 'ai';
import { ContentUnavailableError } from '../../domain/content-unavailable-error.ts';
import { PerdureError } from '../../domain/errors.ts';
import type { RefusalScope } from '../../domain/refusals.ts';
import type { RunErrorCode } from '../../domain/runs.ts';
import { ModelSilentError } from '../provider-stream/idle-limit.ts';
import {
  FILES,
  FILTERED,
  OVERLOADED,
  QUOTA,
  statusOfCode,
  statusOfText,
  TOO_LONG,
  UNKNOWN_MODEL,
  WRONG_KEY,
} from '../provider-stream/status-of-text.ts';
import { asUnreadable, hasNoEnd, saidInBody, streamErrorOf } from '../provider-stream/unreadable-answer.ts';
import { EndedEarlyError } from './ended-early-error.ts';

/**
 * A failed model call, retryable or final. `reason` and `message` depend on status and kind only: they contain no text of
 * the provider, no request and no secret.
 */
export type ProviderFailure =
  | {
      kind: 'retryable';
      code: RetryableCode;
      /** The provider's Retry-After, in milliseconds. */
      retryAfterMs?: number;
      reason: string;
      /** As of `RunFailure`. */
      refused?: RefusalScope;
    }
  | {
      kind: 'final';
      code: FinalCode;
      /** Says what to do. */
      message: string;
      /** As of `RunFailure`. */
      refused?: RefusalScope;
    };

type ProviderCode = 'RateLimited' | 'ProviderUnavailable' | 'NetworkError' | 'Overloaded';
type RetryableCode = ProviderCode | 'AttachmentsUnavailable';
type FinalCode = Exclude<RunErrorCode, ProviderCode | 'LimitReached' | 'CompactionFailed' | 'EmptyAnswer'>;

const MESSAGES = {
  ProviderUnauthorized:
    'The model provider refused the API key: check the key that the worker is configured with, or choose a model of another provider; then have the message answered again.',
  QuotaExceeded:
    'The account at the model provider has no quota or credit left: check its plan and billing, or choose another model; then have the message answered again.',
  NotFound:
    'The model provider does not know this model: check its name, or choose another one; then have the message answered again.',
  WrongAddress:
    'The model provider’s address is wrong: nothing is there for calls of models. Check its base URL, which often ends with /v1, or choose a model of another provider; then have the message answered again.',
  ProviderRejected:
    'The model provider refused the request: edit the message, without files that the model may not take, or have it answered by another model. A new message works too if files were the reason: they are left out from now on.',
  ContextTooLong:
    'The conversation is longer than the model can take: compact it, edit the message to a shorter one, branch from an earlier message, or choose a model with a larger context window.',
  ContentFilter:
    'The model provider’s content filter refused this turn: edit the message, have it answered by another model, or send a new one. The model no longer sees this one, nor what was answered to it. If new ones are refused too, go back to an earlier one.',
  UnreadableAnswer:
    'The model provider’s answer is no stream that this program knows: check the provider’s address, or choose another model; then have the message answered again.',
  Internal: 'An internal error occurred while calling the model: send a new message, or see the worker’s log.',
} as const;

/** What to do about errors before the provider is called; their own messages say what is wrong. */
const OWN_CODES = {
  ModelNotConfigured: 'Choose another model, then have the message answered again.',
  AgentNotConfigured:
    'Have the message answered again once the workers have that agent as it should be, or open a new session with another agent.',
  WorkspaceNotUsable:
    'Have the message answered again once it is a folder again, or open a new session in another workspace.',
  StateNotSet: 'Set it, then have the message answered again.',
  AttachmentsUnavailable:
    'Have the message answered again once the settings and rights of the store of attachments are as they should be.',
} as const;

/**
 * Without its turn the conversation goes on; with it, it would often be refused again.
 * https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
 */
const FILTERED_TURN: ProviderFailure = { ...final('ContentFilter'), refused: 'turn' };

/** Upper bound of a provider's Retry-After. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Classifies what `streamModelCall` or `prepare` threw. Check for aborts first. */
export function classifyProviderError(error: unknown): ProviderFailure {
  if (error instanceof ContentUnavailableError) return ofAttachments(error);
  if (error instanceof PerdureError) return classifyOwn(error);
  if (LoadAPIKeyError.isInstance(error)) return final('ProviderUnauthorized');
  if (error instanceof ModelSilentError) {
    return retryable('ProviderUnavailable', 'the model provider fell silent', undefined);
  }
  if (error instanceof EndedEarlyError || hasNoEnd(error)) {
    return retryable('NetworkError', 'the model provider ended its answer early', undefined);
  }
  if (asUnreadable(error) !== undefined) return final('UnreadableAnswer');
  const facts = factsOf(error);
  if (facts === undefined) return isNetworkError(error) ? network() : final('Internal');
  return classifyStatus(facts);
}

/** With these an answer is whole. */
const WHOLE: ReadonlySet<string> = new Set(['stop', 'length', 'tool-calls']);

/** The failure that a finish reason means, if any: a content filter, or a reason that is not known to end a whole answer. */
export function failureOfFinish(finishReason: string): ProviderFailure | undefined {
  if (WHOLE.has(finishReason)) return undefined;
  if (finishReason === 'content-filter') return FILTERED_TURN;
  return retryable('ProviderUnavailable', 'the model provider broke off its answer', undefined);
}

/**
 * The delay before the next attempt, in milliseconds: the provider's Retry-After, else 500 ms doubled with every attempt up
 * to 30 s, plus up to a quarter at random so that sessions do not retry at the same time.
 *
 * @param attempt the attempt that failed, from 1
 */
export function retryDelayMs(attempt: number, retryAfterMs?: number, random: () => number = Math.random): number {
  const base = retryAfterMs ?? Math.min(30_000, 500 * 2 ** Math.max(0, Math.min(attempt, 20) - 1));
  return Math.round(base + random() * Math.min(base / 4, 2_000));
}

interface Facts {
  status: number | undefined;
  headers: Record<string, string> | undefined;
  /** The provider's text, for matching only. */
  text: string;
  /** The field of the request that it names. */
  param?: string;
}

function factsOf(error: unknown): Facts | undefined {
  const said = streamErrorOf(error);
  if (said !== undefined) {
    const { type, code, message, statusCode } = said;
    // Its message may mention anything.
    const status = statusOfCode(code) ?? statusOfText(`${type} ${code}`) ?? statusOfText(message) ?? statusCode ?? 500;
    return { status, headers: undefined, text: [type, code, message].join(' ') };
  }
  if (APICallError.isInstance(error)) {
    // A connection that breaks in mid-stream has the status of the successful response.
    const status = error.statusCode !== undefined && error.statusCode < 400 ? undefined : error.statusCode;
    const { message, responseBody = '', responseHeaders: headers } = error;
    return { status, headers, ...(responseBody === '' ? { text: message } : saidInBody(responseBody)) };
  }
  return undefined;
}

function classifyStatus(facts: Facts): ProviderFailure {
  const { status, headers, text } = facts;
  if (status === undefined) return network();
  if (status === 429) {
    return QUOTA.test(text) && !/rate_limit/.test(text)
      ? final('ProviderRejected', 'QuotaExceeded')
      : rateLimited(headers, text);
  }
  if (status === 529 || (status >= 500 && OVERLOADED.test(text))) {
    return retryable('Overloaded', 'the model provider is overloaded', retryAfterOf(headers));
  }
  if (status >= 500 || status === 408 || status === 409 || status === 425) {
    const failure = retryable(
      'ProviderUnavailable',
      `the model provider is unavailable (${status})`,
      retryAfterOf(headers),
    );
    return FILES.test(text) ? { ...failure, refused: 'files' } : failure;
  }
  return ofRequest(facts, status);
}

/** A request that the provider does not accept. */
function ofRequest({ text, param }: Facts, status: number): ProviderFailure {
  if (status === 401 || (status === 400 && WRONG_KEY.test(text))) return final('ProviderUnauthorized');
  if (status === 402 || QUOTA.test(text)) return final('ProviderRejected', 'QuotaExceeded');
  if (TOO_LONG.test(text)) return final('ContextTooLong');
  if (FILTERED.test(text)) return FILTERED_TURN;
  if (status === 403) return final('ProviderUnauthorized');
  if (status === 413) return { ...final('ContextTooLong'), refused: 'files' };
  const isOfFiles = FILES.test(text);
  if (!isOfFiles && UNKNOWN_MODEL.test(text)) return final('ProviderRejected', 'NotFound');
  if (status === 404 && !isOfFiles) {
    const isPage = /<html|<!doctype/i.test(text);
    return final('ProviderRejected', /model/i.test(text) && !isPage ? 'NotFound' : 'WrongAddress');
  }
  const isOfMessages = param === undefined || /^(?:messages|input|content|contents)\b/.test(param);
  return isOfMessages ? { ...final('ProviderRejected'), refused: 'files' } : final('ProviderRejected');
}

function ofAttachments({ message, isRefused }: ContentUnavailableError): ProviderFailure {
  const code = 'AttachmentsUnavailable';
  return isRefused ? classifyOwn({ code, message }) : retryable(code, message, undefined);
}

/** What went wrong, and what to do. */
export function classifyOwn({
  code,
  message,
}: {
  code: string;
  message: string;
}): Extract<ProviderFailure, { kind: 'final' }> {
  if (!Object.hasOwn(OWN_CODES, code)) return final('Internal');
  const own = code as keyof typeof OWN_CODES;
  return { kind: 'final', code: own, message: `${message}. ${OWN_CODES[own]}` };
}

function rateLimited(headers: Record<string, string> | undefined, text: string): ProviderFailure {
  return retryable('RateLimited', 'rate limited', retryAfterOf(headers) ?? retryAfterInText(text));
}

function network(): ProviderFailure {
  return retryable('NetworkError', 'the connection to the model provider failed', undefined);
}

type Retryable = Extract<ProviderFailure, { kind: 'retryable' }>;

function retryable(code: Retryable['code'], reason: string, retryAfterMs: number | undefined): Retryable {
  return { kind: 'retryable', code, reason, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

function final(
  code: Exclude<FinalCode, keyof typeof OWN_CODES>,
  message?: keyof typeof MESSAGES,
): Extract<ProviderFailure, { kind: 'final' }> {
  return { kind: 'final', code, message: MESSAGES[message ?? code] };
}

/**
 * Milliseconds from `retry-after-ms`, or from `retry-after` in seconds or as an HTTP date, which is by the clock of the provider:
 * its `date` says what that shows now.
 */
function retryAfterOf(headers: Record<string, string> | undefined): number | undefined {
  const inMs = Number.parseFloat(headers?.['retry-after-ms'] ?? '');
  if (Number.isFinite(inMs)) return bounded(inMs);
  const value = headers?.['retry-after']?.trim();
  if (value === undefined || value === '') return undefined;
  if (/^\d+(?:\.\d+)?$/.test(value)) return bounded(Number(value) * 1_000);
  const at = Date.parse(value);
  const now = Date.parse(headers?.['date'] ?? '');
  return Number.isNaN(at) ? undefined : bounded(at - (Number.isNaN(now) ? Date.now() : now));
}

/** A rate limit in mid-stream has no headers; its text often contains "try again in 1.2s". */
function retryAfterInText(text: string): number | undefined {
  const match = /try again in (\d+(?:\.\d+)?)\s?(ms|s)\b/i.exec(text);
  return match ? bounded(Number(match[1]) * (match[2]?.toLowerCase() === 'ms' ? 1 : 1_000)) : undefined;
}

function bounded(ms: number): number {
  return Math.round(Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS));
}

const NETWORK_CODES = /^(?:ECONN|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_|EHOST|ENET|UND_ERR)/;

/** A failed connection, or a response that ended early or cannot be parsed. */
function isNetworkError(error: unknown): boolean {
  if (NoOutputGeneratedError.isInstance(error)) return true;
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    if (at.name === 'TimeoutError') return true;
    if (NETWORK_CODES.test((at as NodeJS.ErrnoException).code ?? '')) return true;
    if (at instanceof TypeError && /^(?:terminated|fetch failed)$/.test(at.message)) return true;
  }
  return false;
}
