import { ApplicationFailure, WorkflowUpdateFailedError } from '@temporalio/client';
import type { Refusal } from '../domain/commands.ts';
import { type ErrorCode, invalidTransitionMessage, isErrorCode, PerdureError } from '../domain/errors.ts';

/** The one sentence for an unknown session and for somebody else's. */
export function sessionNotFound(): PerdureError {
  return new PerdureError('SessionNotFound', 'there is no such session');
}

export function messageNotFound(): PerdureError {
  return new PerdureError('MessageNotFound', 'there is no such message in this session');
}

/** The error of a refusal: code and facts come from the row, the words are made here. */
export function refusalError(
  refusal: Pick<Refusal, 'code' | 'phase' | 'event' | 'state' | 'locked_project_id'>,
): PerdureError {
  const { code, phase, event, state, locked_project_id } = refusal;
  switch (code) {
    case 'SessionNotFound':
      return sessionNotFound();
    case 'MessageNotFound':
      return messageNotFound();
    case 'InvalidTransition':
      return new PerdureError(code, phase && event ? invalidTransitionMessage(phase, event) : 'not in this phase');
    case 'ProjectAlreadyLocked':
      return new PerdureError(code, `the session is locked to the project "${locked_project_id ?? 'another one'}"`);
    case 'ProjectNotFound':
      return new PerdureError(code, 'there is no such project');
    case 'MessageConflict':
      return new PerdureError(code, 'the session has another message of this id');
    case 'RunInFlight':
      return new PerdureError(code, 'a run is in flight or messages are queued; abort first, or say "abort": true');
    case 'NotQueued':
      return new PerdureError(code, `the message is not queued any more: its run is ${state ?? 'not open'}`);
    case 'TooMany':
      return new PerdureError(code, 'too many messages are queued in this session');
    case 'NotSupported':
      return new PerdureError(code, 'this is not there yet');
    default:
      return new PerdureError(isErrorCode(code) ? code : 'Internal', `the command was refused: ${code}`);
  }
}

/**
 * What a failed update means. Anything but a refusal is `Unavailable`: nobody knows whether the command was, or will be,
 * carried out, and sending it again under the same id finds out.
 */
export function updateError(error: unknown): PerdureError {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  if (cause instanceof ApplicationFailure && typeof cause.type === 'string' && isErrorCode(cause.type)) {
    const refusal = cause.details?.[0] as Partial<Refusal> | undefined;
    if (cause.type === 'BadRequest') return new PerdureError('BadRequest', cause.message);
    return refusalError({ ...refusal, code: cause.type satisfies ErrorCode });
  }
  return new PerdureError(
    'Unavailable',
    'the session did not answer in time and the outcome is unknown; send the command again with the same Idempotency-Key',
    { cause: error },
  );
}
