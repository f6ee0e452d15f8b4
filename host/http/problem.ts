import type { Problem } from '../../client/chat.ts';
import { LeftTheLineError } from '../../client/wait/limiter.ts';
import type { Logger } from '../../config/log.ts';
import { ERROR_STATUS, type ErrorCode, PerdureError } from '../../domain/errors.ts';
import { isTemporary } from '../../store/is-temporary.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { InvalidTokenError } from '../auth/loopback-user.ts';

/** Converts any error to problem details. An unexpected error becomes `Internal` without its message. */
export function problemOfError(error: unknown): Problem {
  if (error instanceof PerdureError) {
    const errors = error instanceof InvalidInputError ? { errors: [...error.errors] } : {};
    return { ...problem(error.code, error.message), ...errors };
  }
  if (error instanceof LeftTheLineError)
    return problem('Unavailable', 'the connection was closed before the request was begun');
  if (isTemporary(error)) return problem('Unavailable', 'the database cannot be reached; try again in a moment');
  return problem('Internal', "an internal error; see the server's log");
}

/** As `problemOfError`, and logs what is not the caller's doing: `Internal` as an error, `Unavailable` as a warning. */
export function loggedProblem(error: unknown, log: Logger, request: object): Problem {
  const details = problemOfError(error);
  if (error instanceof LeftTheLineError) return details;
  const line = { err: error, ...request, code: details.code };
  if (details.code === 'Internal') log.error(line, 'a request failed');
  else if (details.code === 'Unavailable') log.warn(line, 'a request could not be served');
  return details;
}

function problem(code: ErrorCode, detail: string): Problem {
  const title = code.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ');
  return { type: `urn:perdure:error:${code}`, title, status: ERROR_STATUS[code], detail, code };
}

/** Headers that a status requires: how to authenticate, or when to retry. */
const HEADERS: Readonly<Partial<Record<number, Record<string, string>>>> = {
  401: { 'www-authenticate': 'Bearer' },
  429: { 'retry-after': '5' },
  503: { 'retry-after': '1' },
};

/** The challenge for an invalid token (RFC 6750, 3.1); callers without a token get the scheme only. */
export function challengeOf(error: unknown): Record<string, string> {
  return error instanceof InvalidTokenError ? { 'www-authenticate': 'Bearer error="invalid_token"' } : {};
}

export function problemResponse(details: Problem, headers: Record<string, string> = {}): Response {
  const { status } = details;
  return Response.json(details, {
    status,
    headers: { ...HEADERS[status], ...headers, 'content-type': 'application/problem+json' },
  });
}
