import { ApplicationFailure, WorkflowUpdateFailedError } from '@temporalio/client';
import type { Refusal } from '../domain/activities.ts';
import { type ErrorCode, invalidTransitionMessage, isErrorCode, PerdureError } from '../domain/errors.ts';
import { InvalidInputError, keyReused } from '../wire/input.ts';

/** An update that got no answer by its deadline. */
export class NoAnswerError extends Error {
  /** Certainly no attempt was or will be carried out. */
  readonly notDone: boolean;

  constructor(notDone: boolean, options: ErrorOptions) {
    super(notDone ? 'the update was not carried out' : 'the outcome of the update is unknown', options);
    this.name = 'NoAnswerError';
    this.notDone = notDone;
  }
}

/** An unknown session and another user's session get the same error. */
export function sessionNotFound(): PerdureError {
  return new PerdureError('SessionNotFound', 'there is no such session');
}

/** @param field the argument that names the message, unless the path does */
export function messageNotFound(field?: string): PerdureError {
  if (field !== undefined)
    return new InvalidInputError([{ field, expected: 'a message of this session' }], 'MessageNotFound');
  return new PerdureError('MessageNotFound', 'there is no such message in this session');
}

const CAUSES: Readonly<Record<string, string>> = {
  rewind: 'a rewind: undo that first',
  edit: 'an edit, which has replaced it',
  cancelled: 'its cancellation',
  compaction: 'a compaction',
};

/** What refusals say that depend on nothing else. */
const SAID: Readonly<Partial<Record<ErrorCode, string>>> = {
  ProjectNotFound: 'there is no such project',
  MessageConflict: 'the session has another message with this id',
  RunInFlight: 'a run is in flight or messages are queued; abort first, or send "abort": true',
  NothingToUnrewind: 'there is no rewind to undo: none was made since the last message',
  InvalidRange: 'expected either tail_turns, or from_start_message_id of a visible message not after from_message_id',
  NothingToCompact:
    'there is nothing to compact: no turns come before the newest ones, which stay, and no output can be pruned',
  NothingToPrune: 'there is nothing to prune: the model sees no large tool output but the newest ones',
  ChildSession:
    'the session belongs to a tool call of another one: only that gives it messages, and it has no branches',
  ProjectRequired: 'decision: "always" needs a project, and the session has none',
  TooMany: 'too many messages are queued in this session',
  TooManyAnswers: 'there is no room for another answer: with prunes, a message has 998 at most',
  NotSupported: 'this is not supported yet',
};

const TOO_LARGE_A_BRANCH =
  'a branch has at most 50,000 messages and parts, of 64 MiB: branch at an earlier message, or copy less of the ' +
  'conversation, with tail_turns or from_start_message_id';

/** The error of a refusal: code and facts from the row, with a message for people. */
export function refusalError(refusal: Omit<Refusal, 'ok'>): PerdureError {
  const { code, phase, event, state, locked_project_id, cause, decision, offered, field } = refusal;
  switch (code) {
    case 'SessionNotFound':
      return sessionNotFound();
    case 'MessageNotFound':
      return messageNotFound(field);
    case 'InvalidTransition':
      return new PerdureError(code, phase && event ? invalidTransitionMessage(phase, event) : 'not in this phase');
    case 'ProjectAlreadyLocked':
      return new PerdureError(code, `the session is locked to the project "${locked_project_id ?? 'another one'}"`);
    case 'NotQueued':
      return new PerdureError(code, `the message is no longer queued: its run is ${state ?? 'not open'}`);
    case 'NotUserMessage':
      if (field !== undefined) return new InvalidInputError([{ field, expected: 'a message of the user' }], code);
      return new PerdureError(code, 'the message is not one of the user: only those can be gone back to');
    case 'MessageHidden':
      return new PerdureError(code, `the message is hidden by ${CAUSES[cause ?? ''] ?? 'an earlier change'}`);
    case 'NotWaiting': {
      const why = decision === undefined ? cause : `it was decided "${decision}"`;
      return new PerdureError(code, `the tool call does not wait for this${why === undefined ? '' : `: ${why}`}`);
    }
    case 'NotOffered':
      return new PerdureError(code, `decision: expected one that is offered: ${(offered ?? []).join(', ')}`);
    case 'KeyReused':
      return keyReused();
    case 'TooLarge':
      if (field === undefined) return new PerdureError(code, TOO_LARGE_A_BRANCH);
      return new InvalidInputError([{ field, expected: 'at most 16384 bytes, with that of the session' }], code);
    default: {
      const known = isErrorCode(code) ? code : 'Internal';
      return new PerdureError(known, SAID[known] ?? `the command was refused: ${code}`);
    }
  }
}

const SEND_AGAIN = 'send the command again with the same Idempotency-Key';

/** The error that a caller gets for a failed `sendUpdate`: the workflow's refusal, or `Unavailable`. */
export function updateError(error: unknown): PerdureError {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  if (cause instanceof ApplicationFailure && typeof cause.type === 'string' && isErrorCode(cause.type)) {
    const refusal = cause.details?.[0] as Partial<Refusal> | undefined;
    if (cause.type === 'BadRequest') return new PerdureError('BadRequest', cause.message);
    return refusalError({ ...refusal, code: cause.type satisfies ErrorCode });
  }
  const what =
    error instanceof NoAnswerError && error.notDone
      ? 'the command could not be delivered to the session and was not carried out'
      : 'the session did not answer in time and the outcome is unknown';
  return new PerdureError('Unavailable', `${what}; ${SEND_AGAIN}`, { cause: error });
}
