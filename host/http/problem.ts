import { LeftTheLine } from '../../client/wait/limiter.ts';
import { isTemporary } from '../../store/is-temporary.ts';
import type { Logger } from '../../config/log.ts';
import { ERROR_STATUS, type ErrorCode, PerdureError } from '../../domain/errors.ts';
import { type FieldError, InvalidInput } from '../../wire/input.ts';
import { InvalidToken } from '../auth/loopback-user.ts';

/** Problem details (RFC 9457) with the error's name as `code`; `errors` names the invalid fields. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  errors?: readonly FieldError[];
}

/** Converts any error to problem details. An unexpected error becomes `Internal` without its message. */
export function problemOf(error: unknown): Problem {
  if (error instanceof PerdureError) {
    const errors = error instanceof InvalidInput ? { errors: error.errors } : {};
    return { ...problem(error.code, error.message), ...errors };
  }
  if (error instanceof LeftTheLine)
    return problem('Unavailable', 'the connection was closed before the request was begun');
  if (isTemporary(error)) return problem('Unavailable', 'the database cannot be reached; try again in a moment');
  return problem('Internal', "an internal error; see the server's log");
}

/** As `problemOf`, and logs what is not the caller's doing: `Internal` as an error, `Unavailable` as a warning. */
export function loggedProblem(error: unknown, log: Logger, request: object): Problem {
  const details = problemOf(error);
  if (error instanceof LeftTheLine) return details;
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
  return error instanceof InvalidToken ? { 'www-authenticate': 'Bearer error="invalid_token"' } : {};
}

export function problemResponse(problemDetails: Problem, headers: Record<string, string> = {}): Response {
  const { status } = problemDetails;
  return Response.json(problemDetails, {
    status,
    headers: { ...HEADERS[status], ...headers, 'content-type': 'application/problem+json' },
  });
}
