import { ApplicationFailure, setHandler, workflowInfo } from '@temporalio/workflow';
import { ID_EXPECTED, ID_PATTERN } from '../domain/command-table.ts';
import {
  INITIATIVE_COMMAND_NAMES,
  type InitiativeArgs,
  type InitiativeCommand,
  initiativeCommandEntry,
  type InitiativeResult,
} from '../domain/initiatives/initiative-commands.ts';
import { initiativeLocalActivities } from './activities.ts';
import {
  initiativeSnapshotQuery,
  initiativeStatusQuery,
  initiativeUpdateOf,
  initiativeWakeUpdate,
} from './definitions.ts';
import { displayInitiative } from './display-initiative.ts';
import type { InitiativeState } from './initiative-state.ts';

/** Registers all updates and queries. */
export function registerInitiativeHandlers(state: InitiativeState): void {
  setHandler(initiativeWakeUpdate, async () => {
    await state.sequencer.next('wake');
    state.touch();
    await state.load();
    displayInitiative(state);
    return { event_seq: state.mark.event_seq };
  });
  for (const name of INITIATIVE_COMMAND_NAMES) {
    const validator = (args: InitiativeArgs) => validate(name, args);
    setHandler(initiativeUpdateOf(name), async (args) => answer(await carryOut(state, name, args)), { validator });
  }
  setHandler(initiativeStatusQuery, () => ({ state: state.loaded ? state.mark.status : 'loading' }));
  setHandler(initiativeSnapshotQuery, () => state.snapshot(workflowInfo().historyLength));
}

/** Refuses malformed input only: Postgres decides whether the command is legal now. */
function validate(name: InitiativeCommand, args: InitiativeArgs): void {
  const names = ['command_id', ...(idsGiven(name, args) ? idsOf(name) : [])];
  const fault = names.find((each) => typeof args?.[each] !== 'string' || !ID_PATTERN.test(args[each]));
  if (fault !== undefined) throw ApplicationFailure.nonRetryable(`${fault}: expected ${ID_EXPECTED}`, 'BadRequest');
}

function idsOf(name: InitiativeCommand): readonly string[] {
  return initiativeCommandEntry(name).ids ?? [];
}

/** Whether an update has more than the id of a recorded command. */
function idsGiven(name: InitiativeCommand, args: InitiativeArgs | undefined): boolean {
  return idsOf(name).some((each) => args?.[each] !== undefined);
}

async function carryOut(
  state: InitiativeState,
  command: InitiativeCommand,
  { command_id, ...given }: InitiativeArgs,
): Promise<InitiativeResult> {
  await state.sequencer.next('command');
  state.touch();
  const names = idsOf(command);
  const ids = Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)));
  const args = Object.keys(ids).length > 0 ? (ids as Record<string, string>) : null;
  const { mark, ...outcome } = await state.sequencer.exclusively(() =>
    initiativeLocalActivities.applyInitiative({ initiative_id: state.initiativeId, command, command_id, args }),
  );
  state.follow(mark);
  displayInitiative(state);
  return outcome;
}

/** The result of an update. @throws {ApplicationFailure} with the code of a refusal */
function answer(outcome: InitiativeResult): InitiativeResult {
  if (outcome.ok) return outcome;
  const code = outcome.code ?? 'Internal';
  throw ApplicationFailure.create({ message: code, type: code, nonRetryable: true });
}
