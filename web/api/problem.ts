import { APICallError } from 'ai';
import { type ErrorCode, isErrorCode } from '../../domain/errors.ts';
import { sentence } from '../lib/sentence.ts';

/** A refusal by the server, with its message. */
export class ProblemError extends Error {
  readonly code: ErrorCode;
  readonly status: number;

  constructor(status: number, code: ErrorCode, detail: string) {
    super(detail);
    this.name = 'ProblemError';
    this.status = status;
    this.code = code;
  }
}

const AGAIN = 'Try again in a moment.';
const OPERATOR = "The server's operator has to change that.";

/** What the user can do about each error. */
const ADVICE: Record<ErrorCode, string> = {
  BadRequest: 'Change it and try again.',
  Unauthorized: 'Enter a token above.',
  Forbidden: 'Ask an administrator, or open the page at the address that the server printed when it started.',
  SessionNotFound: 'Start a new session.',
  ProjectNotFound: 'Check its name.',
  MessageNotFound: 'Reload the page.',
  AttachmentNotFound: 'Attach the file again.',
  ToolOutputNotFound: 'Reload the page.',
  PromptNotFound: 'Reload the page.',
  InitiativeNotFound: 'Reload the page.',
  DecisionNotFound: 'Reload the page.',
  BlockerNotFound: 'Reload the page.',
  TaskNotFound: 'Reload the page.',
  WorkSessionNotFound: 'Reload the page.',
  RuleNotFound: 'Reload the page.',
  NotFound: 'Reload the page.',
  MethodNotAllowed: 'Reload the page: the server may be newer.',
  InvalidTransition: 'The phase above is the current one; it may have been changed elsewhere.',
  ProjectAlreadyLocked: 'Start a new session for another project.',
  MessageConflict: 'Take it back and send it as a new message.',
  RunInFlight: 'Stop the answer or wait for its end, then try again.',
  NotQueued: 'It is already being answered; you can stop that.',
  StaleSession: 'It was changed elsewhere: look at it again, then change it.',
  SessionExists: 'Choose another id.',
  EventConflict: 'Send it as a new event.',
  NotUserMessage: 'Go back to a message of yours.',
  MessageHidden: 'Reload the page.',
  NothingToUnrewind: 'Reload the page.',
  InvalidRange: 'Reload the page.',
  InvalidLine: 'Export the session again.',
  WrongOrder: 'Export the session again.',
  ForeignId: 'Export the session again.',
  DuplicateId: 'Export the session again.',
  NothingToCompact: 'Only the newest turns are left, which stay as they are: go on with the conversation.',
  NothingToPrune: 'Compact the conversation instead.',
  TaskAssigned: 'Take another task.',
  BlockerResolved: 'Reload the page.',
  ReviewRequired: 'Review what is missing in the workspace, then go on.',
  StaleState: 'Read it again, then make your change in that.',
  PreconditionRequired: 'Read it again, then make your change in that.',
  ChildSession: 'Write in the session that has called it.',
  TooManyAnswers: 'Edit the message instead.',
  NotWaiting: 'Look at the call again.',
  NotOffered: 'Choose another answer.',
  ProjectRequired: 'Allow it once or for this session.',
  ManifestRule: "Only the agent's definition can change it.",
  TooLarge: 'Make it shorter.',
  ModalityNotSupported: 'Leave the file out, or choose another model.',
  ModelNotConfigured: 'Choose another model.',
  AgentNotConfigured: OPERATOR,
  WorkspaceNotUsable: 'Try again once it is a folder again, or start a new session.',
  StateNotSet: 'Set it, then send a new message.',
  KeyReused: 'Send it under a new key.',
  TooMany: 'Wait until some of them have been answered, or take some back.',
  Internal: `${AGAIN} If it happens again, see the server's log.`,
  NotSupported: 'This server does not support it yet.',
  Unavailable: AGAIN,
};

/** Messages in place of the server's own, where that is missing or meant for programs. */
const FACTS: Partial<Record<ErrorCode, string>> = {
  Unauthorized: 'The server requires a token.',
  Internal: 'Something went wrong in the server.',
  Unavailable: 'The server cannot do that right now.',
};

/** True if the server refused the request for good; false for transient errors, after which a retry may succeed. */
export function isRefusal(error: unknown): boolean {
  const { status } = problemIn(error) ?? { status: 500 };
  // With a token, or later, the same request may succeed.
  if (status === 401 || status === 429) return false;
  return status < 500 || status === 501;
}

/** True if the server has no such message, nor perhaps its session. */
export function isUnknown(error: unknown): boolean {
  const code = problemIn(error)?.code;
  return code === 'MessageNotFound' || code === 'SessionNotFound';
}

/** What went wrong and what to do, for users. */
export function wordsOf(error: unknown): string {
  const problem = problemIn(error);
  return problem ? `${factOf(problem)} ${ADVICE[problem.code]}` : `${unreached()} ${AGAIN}`;
}

/** Why a message has not arrived. The page retries it unless it was refused. */
export function retryReason(error: unknown): string {
  const problem = problemIn(error);
  if (isRefusal(error) || problem?.status === 401) return wordsOf(error);
  return `${problem ? factOf(problem) : unreached()} It will be sent again until it arrives.`;
}

function factOf({ code, message }: ProblemError): string {
  return FACTS[code] ?? sentence(message);
}

function unreached(): string {
  return navigator.onLine ? 'The server cannot be reached.' : 'This device is offline.';
}

/** Parses the body of an error response. */
export function problemOfResponse(status: number, text: string): ProblemError {
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown };
    if (typeof code === 'string' && isErrorCode(code) && typeof detail === 'string')
      return new ProblemError(status, code, detail);
  } catch {
    // A proxy's response is not problem details.
  }
  return new ProblemError(status, status === 401 ? 'Unauthorized' : 'Unavailable', '');
}

/** The server's problem; undefined: the server was not reached. */
function problemIn(error: unknown): ProblemError | undefined {
  if (error instanceof ProblemError) return error;
  return APICallError.isInstance(error)
    ? problemOfResponse(error.statusCode ?? 500, error.responseBody ?? '')
    : undefined;
}
