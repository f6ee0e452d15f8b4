import { type ErrorCode, isErrorCode, PerdureError } from '../../domain/errors.ts';
import type { InitiativeOutcome } from '../../store/initiatives.ts';
import { InvalidInputError, keyReused } from '../../wire/input.ts';
import type { EditUpdate } from '../state-file/edit-updates.ts';
import { lineField } from '../state-file/parse-state.ts';

/** An unknown initiative and another user's get the same error. */
export function initiativeNotFound(): PerdureError {
  return new PerdureError('InitiativeNotFound', 'there is no such initiative');
}

/** What refusals say that depend on nothing else. */
const SAID: Readonly<Partial<Record<ErrorCode, string>>> = {
  TaskNotFound: 'there is no such task in this initiative',
  BlockerNotFound: 'there is no such blocker in this initiative',
  WorkSessionNotFound: 'there is no such work session in this initiative',
  SessionNotFound: 'there is no such session',
  ReviewRequired: 'the workspace is not as resume_context says: somebody has to review that first',
  BlockerResolved: 'the blocker is resolved already',
  StaleState: 'the initiative has changed since this STATE.md was read: read it again',
};

/** The error of a refused command. */
export function refusedInitiative(outcome: InitiativeOutcome): PerdureError {
  const { code = 'Internal', machine, status, event, assigned_to, field, expected } = outcome;
  switch (code) {
    case 'InitiativeNotFound':
      return initiativeNotFound();
    case 'BadRequest':
      return new InvalidInputError([{ field: String(field), expected: String(expected) }]);
    case 'TaskAssigned':
      return new PerdureError(
        code,
        typeof assigned_to === 'string'
          ? `the task is held by ${assigned_to}`
          : 'no work session holds the task: start it first',
      );
    case 'InvalidTransition':
      return new PerdureError(
        code,
        `a ${String(machine).replace('_', ' ')} that is ${String(status)} cannot take the event "${String(event)}"`,
      );
    case 'KeyReused':
      return keyReused();
    default: {
      const known = isErrorCode(code) ? code : 'Internal';
      return new PerdureError(known, SAID[known] ?? `the command was refused: ${code}`);
    }
  }
}

/** The error of a refused edit of STATE.md: as BadRequest with the line of the update, unless the initiative has changed. */
export function refusedEdit(outcome: InitiativeOutcome, updates: readonly EditUpdate[]): PerdureError {
  const error = refusedInitiative(outcome);
  const update = updates[outcome.n ?? -1];
  if (update === undefined) return error;
  const expected = error instanceof InvalidInputError ? error.message : `another change (${error.message})`;
  return new InvalidInputError([{ field: lineField(update.line), expected }]);
}
