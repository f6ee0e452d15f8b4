import { ApplicationFailure } from '@temporalio/activity';
import { snakeCase } from '../domain/command-table.ts';
import type { InitiativeActivities } from '../domain/initiatives/initiative-commands.ts';
import { applyForWorkflow, readInitiativeMark, resetStale } from '../store/initiative-workflows.ts';
import type { ActivityContext } from './activity-context.ts';

/** The activities of initiatives' workflows: they return ids, statuses and times. */
export function initiativeActivities(context: ActivityContext): InitiativeActivities {
  const { db, bus, settings } = context;
  const tell = (initiative: string) => bus.publish({ session: initiative, kind: 'status' });
  const shown = <Mark extends { user_id: string }>(mark: Mark): Mark => ({
    ...mark,
    user_id: context.showUser(mark.user_id),
  });
  return {
    loadInitiative: async ({ initiative_id: id }) => ({
      ...shown(found(await readInitiativeMark(db, id, settings))),
      settings: { idle_close_ms: settings.idleCloseMs, continue_as_new_events: settings.continueAsNewEvents },
    }),
    applyInitiative: async ({ initiative_id: id, command, command_id, args }) => {
      const name = snakeCase(command);
      const { mark, ...outcome } = found(
        await applyForWorkflow(db, id, { name, id: `${name}:${command_id}`, args }, settings),
      );
      if (args !== null) tell(id);
      return { ...outcome, mark: shown(mark) };
    },
    resetStale: async ({ initiative_id: id, ...watched }) => {
      const mark = found(await resetStale(db, id, watched, settings));
      tell(id);
      return shown(mark);
    },
  };
}

/** @throws {ApplicationFailure} the initiative is gone: its user was erased */
function found<T>(value: T | undefined): T {
  if (value === undefined) throw ApplicationFailure.nonRetryable('InitiativeNotFound', 'InitiativeNotFound');
  return value;
}
