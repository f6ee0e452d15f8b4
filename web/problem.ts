import { APICallError } from 'ai';
import { type ErrorCode, isErrorCode } from '../domain/errors.ts';
import { sentence } from './sentence.ts';

/** What the server refuses, in its words. */
export class Problem extends Error {
  readonly code: ErrorCode;
  readonly status: number;

  constructor(status: number, code: ErrorCode, detail: string) {
    super(detail);
    this.name = 'Problem';
    this.status = status;
    this.code = code;
  }
}

const AGAIN = 'Try again in a moment.';
const OPERATOR = 'Whoever runs this server has to change that.';

/** What there is to do about each error, for whoever sits before the page. */
const ADVICE: Record<ErrorCode, string> = {
  BadRequest: 'Change it and try again.',
  Unauthorized: 'Enter a token above.',
  Forbidden: 'Open the page at the address that the server printed when it started.',
  SessionNotFound: 'Begin a new session.',
  ProjectNotFound: 'Look whether its name is right.',
  MessageNotFound: 'Load the page again to see what there is.',
  ToolOutputNotFound: 'Load the page again to see what there is.',
  NotFound: 'Load the page again to see what there is.',
  MethodNotAllowed: 'Load the page again: the server may be newer than it.',
  InvalidTransition: 'The phase above is as it is now; something else may have changed it first.',
  ProjectAlreadyLocked: 'Begin a new session for another project.',
  MessageConflict: 'Take it back and send it as a new message.',
  RunInFlight: 'Stop the answer or wait for its end, then try again.',
  NotQueued: 'It is being answered already; you can stop that.',
  TooLarge: 'Make it shorter.',
  ModelNotConfigured: OPERATOR,
  AgentNotConfigured: OPERATOR,
  WorkspaceNotUsable: 'Begin a new session.',
  TooMany: 'Wait until some of them have been answered, or take some back.',
  Internal: `${AGAIN} If it stays, the server's log says more.`,
  NotSupported: 'This server cannot do it yet.',
  Unavailable: AGAIN,
};

/** Where the server speaks to programs, or says nothing. */
const FACTS: Partial<Record<ErrorCode, string>> = {
  Unauthorized: 'The server wants to know who you are.',
  Internal: 'Something went wrong in the server.',
  Unavailable: 'The server cannot do that right now.',
};

/** Whether the server said no, so that the same again gets the same; else it was not reached or is in trouble. */
export function isRefusal(error: unknown): boolean {
  const { status } = problemIn(error) ?? { status: 500 };
  // With a token, or after a while, the same may be taken.
  if (status === 401 || status === 429) return false;
  return status < 500 || status === 501;
}

/** What went wrong and what there is to do, for people. */
export function wordsOf(error: unknown): string {
  const problem = problemIn(error);
  return problem ? `${factOf(problem)} ${ADVICE[problem.code]}` : `${unreached()} ${AGAIN}`;
}

/** Why a message has not arrived. One that is not refused is sent again by the page. */
export function reasonOf(error: unknown): string {
  const problem = problemIn(error);
  if (isRefusal(error) || problem?.status === 401) return wordsOf(error);
  return `${problem ? factOf(problem) : unreached()} It is sent again until it arrives.`;
}

function factOf({ code, message }: Problem): string {
  return FACTS[code] ?? sentence(message);
}

function unreached(): string {
  return navigator.onLine ? 'The server cannot be reached.' : 'This device is offline.';
}

/** The problem that an answer's body tells of. */
export function problemOf(status: number, text: string): Problem {
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown };
    if (typeof code === 'string' && isErrorCode(code) && typeof detail === 'string')
      return new Problem(status, code, detail);
  } catch {
    // Something between the page and the server answers in its own way.
  }
  return new Problem(status, status === 401 ? 'Unauthorized' : 'Unavailable', '');
}

/** What the server said; undefined: nothing, for it was not reached. */
function problemIn(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error;
  return APICallError.isInstance(error) ? problemOf(error.statusCode ?? 500, error.responseBody ?? '') : undefined;
}
