import type { Phase, PhaseEvent } from './phases.ts';

/**
 * Every error code with its HTTP status. The same code is used in problem details, Temporal failures, tool errors and
 * metrics.
 */
export const ERROR_STATUS = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  SessionNotFound: 404,
  ProjectNotFound: 404,
  MessageNotFound: 404,
  ToolOutputNotFound: 404,
  PromptNotFound: 404,
  AttachmentNotFound: 404,
  InitiativeNotFound: 404,
  DecisionNotFound: 404,
  BlockerNotFound: 404,
  TaskNotFound: 404,
  WorkSessionNotFound: 404,
  RuleNotFound: 404,
  NotFound: 404,
  MethodNotAllowed: 405,
  InvalidTransition: 409,
  ProjectAlreadyLocked: 409,
  MessageConflict: 409,
  RunInFlight: 409,
  NotQueued: 409,
  StaleSession: 409,
  SessionExists: 409,
  EventConflict: 409,
  NotUserMessage: 409,
  MessageHidden: 409,
  NothingToUnrewind: 409,
  InvalidRange: 409,
  InvalidLine: 400,
  WrongOrder: 400,
  ForeignId: 400,
  DuplicateId: 400,
  NothingToCompact: 409,
  NothingToPrune: 409,
  TaskAssigned: 409,
  BlockerResolved: 409,
  ReviewRequired: 409,
  StaleState: 412,
  ChildSession: 409,
  TooManyAnswers: 409,
  NotWaiting: 409,
  NotOffered: 400,
  ProjectRequired: 400,
  ManifestRule: 409,
  TooLarge: 413,
  ModelNotConfigured: 422,
  ModalityNotSupported: 422,
  AgentNotConfigured: 422,
  WorkspaceNotUsable: 422,
  StateNotSet: 422,
  KeyReused: 422,
  PreconditionRequired: 428,
  TooMany: 429,
  Internal: 500,
  NotSupported: 501,
  Unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** An error with a code that callers can act on. The message is for people and never contains a secret. */
export class PerdureError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = code;
    this.code = code;
  }
}

/** Whether the code is one of ERROR_STATUS. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_STATUS, code);
}

/** The message below as a template for SQL: %s is replaced by the phase, %e by the event. */
export const INVALID_TRANSITION_FORMAT = 'a session in phase "%s" cannot take the event "%e"';

/** The message for an illegal transition: the same in SQL, in the workflow, over HTTP and for the model. */
export function invalidTransitionMessage(phase: Phase, event: PhaseEvent): string {
  return INVALID_TRANSITION_FORMAT.replace('%s', phase).replace('%e', event);
}
