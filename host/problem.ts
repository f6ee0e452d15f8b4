import type { z } from 'zod';
import { isUnavailable } from '../client/unavailable.ts';
import { ERROR_STATUS, type ErrorCode, PerdureError } from '../domain/errors.ts';
import { problemsOf } from '../domain/wire.ts';

/** Problem details of RFC 9457, with the error's name as `code`; `errors` names the fields that are wrong. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  errors?: { field: string; expected: string }[];
}

/** Input that a schema refused. */
export class InvalidInput extends PerdureError {
  readonly errors: { field: string; expected: string }[];

  constructor(error: z.ZodError, prefix: readonly PropertyKey[] = []) {
    const errors = problemsOf(error, prefix);
    const [first] = errors;
    super('BadRequest', first ? `${first.field}: expected ${first.expected}` : 'the input is not valid');
    this.errors = errors;
  }
}

/** The one place where an error becomes an answer. What nobody expected is `Internal` and tells nothing of itself. */
export function problemOf(error: unknown): Problem {
  if (error instanceof PerdureError) {
    const errors = error instanceof InvalidInput ? { errors: error.errors } : {};
    return { ...problem(error.code, error.message), ...errors };
  }
  if (isUnavailable(error)) return problem('Unavailable', 'the database cannot be reached; try again in a moment');
  return problem('Internal', 'something went wrong inside; the log says more');
}

function problem(code: ErrorCode, detail: string): Problem {
  const title = code.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ');
  return { type: `urn:perdure:error:${code}`, title, status: ERROR_STATUS[code], detail, code };
}

export function problemResponse(problemDetails: Problem): Response {
  return Response.json(problemDetails, {
    status: problemDetails.status,
    headers: { 'content-type': 'application/problem+json' },
  });
}
