import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { SignalDefinition, UpdateDefinition } from '@temporalio/common';
import {
  COMMAND_NAMES,
  type CommandArgs,
  type CommandName,
  type CommandOutcome,
  SIGNALS,
  type UpdateArgs,
} from '../domain/command-table.ts';
import type { QueuedRun, SessionMark, SessionSnapshot } from '../domain/commands.ts';
import type { SessionStatus } from '../domain/runs.ts';

// The names by which others reach a session: signals from the Temporal UI, the CLI and any SDK; updates from the client.

/** Wakes the session for a message whose row has already accepted it. */
export const submitUpdate = defineUpdate<{ position: number }, [QueuedRun]>('submit');

/** A command's update definition, typed as one of any command. */
export function updateOf(name: CommandName): UpdateDefinition<SessionMark, [CommandArgs & Record<string, unknown>]> {
  return defineUpdate(name);
}

/** The update of each command. The table promises the members of its outcome; the row's function keeps the promise. */
export const updates = Object.fromEntries(COMMAND_NAMES.map((name) => [name, updateOf(name)])) as unknown as {
  readonly [Name in CommandName]: UpdateDefinition<CommandOutcome<Name>, [UpdateArgs<Name>]>;
};

/** The signals. A reason in one is visible in Temporal's history; the client keeps reasons out of it. */
export const signals = Object.fromEntries(SIGNALS.map((name) => [name, defineSignal(name)])) as {
  readonly [Name in (typeof SIGNALS)[number]]: SignalDefinition<[Readonly<Record<string, unknown>>?]>;
};

export const statusQuery = defineQuery<SessionStatus>('status');
export const snapshotQuery = defineQuery<SessionSnapshot>('snapshot');

/** Workflow type of a session; its id is the session id, and so is its only argument. */
export const SESSION_WORKFLOW = 'session';
export const TASK_QUEUE = 'perdure';
