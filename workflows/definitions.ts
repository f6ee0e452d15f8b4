import type { SignalDefinition, UpdateDefinition } from '@temporalio/common';
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { SessionMark, SessionSnapshot, Wake } from '../domain/activities.ts';
import {
  COMMAND_NAMES,
  type CommandArgs,
  type CommandName,
  type CommandOutcome,
  SIGNALS,
  type UpdateArgs,
} from '../domain/command-table.ts';
import type {
  InitiativeArgs,
  InitiativeCommand,
  InitiativeResult,
  InitiativeSnapshot,
} from '../domain/initiatives/initiative-commands.ts';
import type { SessionStatus } from '../domain/runs.ts';

// The signals (for the Temporal UI, the CLI and any SDK), updates (for the client) and queries of a session.

/** Wakes the session for a message that Postgres has already accepted. */
export const submitUpdate = defineUpdate<{ position: number }, [Wake]>('submit');

/** A command's update definition, typed as one of any command. */
export function updateOf(name: CommandName): UpdateDefinition<SessionMark, [CommandArgs & Record<string, unknown>]> {
  return defineUpdate(name);
}

/** The update of each command. Its outcome has the members of the command table, as the SQL function returns them. */
export const updates = Object.fromEntries(COMMAND_NAMES.map((name) => [name, updateOf(name)])) as unknown as {
  readonly [Name in CommandName]: UpdateDefinition<CommandOutcome<Name>, [UpdateArgs<Name>]>;
};

/** The signals. A reason in a signal stays visible in the history; the client stores reasons in Postgres instead. */
export const signals = Object.fromEntries(SIGNALS.map((name) => [name, defineSignal(name)])) as {
  readonly [Name in (typeof SIGNALS)[number]]: SignalDefinition<[Readonly<Record<string, unknown>>?]>;
};

/** Tells a session of one of its runs: a child for which the run waits is over, has put a message into its queue, or was ended. */
export const wakeSignal = defineSignal<[Wake]>('wake');

export const statusQuery = defineQuery<SessionStatus>('status');
export const snapshotQuery = defineQuery<SessionSnapshot>('snapshot');

/** Workflow type of a session; its id is the session id, and so is its only argument. */
export const SESSION_WORKFLOW = 'session';

/** The update of an initiative's command: its id, of a command that the client has stored, or ids with which it is carried out. */
export function initiativeUpdateOf(name: InitiativeCommand): UpdateDefinition<InitiativeResult, [InitiativeArgs]> {
  return defineUpdate(name);
}

/** Makes an initiative's workflow look at its rows. */
export const initiativeWakeUpdate = defineUpdate<{ event_seq: number }, [object]>('wake');

export const initiativeStatusQuery = defineQuery<{ state: InitiativeSnapshot['status'] | 'loading' }>('status');
export const initiativeSnapshotQuery = defineQuery<InitiativeSnapshot>('snapshot');

/** Workflow type of an initiative; its id is the initiative's, and so is its only argument. */
export const INITIATIVE_WORKFLOW = 'initiative';
