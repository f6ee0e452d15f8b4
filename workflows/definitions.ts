import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type {
  AbortOutcome,
  CancelOutcome,
  CloseOutcome,
  CommandArgs,
  CommandOutcome,
  SessionSnapshot,
  WakeArgs,
} from '../domain/commands.ts';
import type { SessionStatus } from '../domain/runs.ts';

// The names that others send by: signals from the Temporal UI, the CLI and any SDK; updates from the client. Commands
// that this version does not know yet (unrewind, branch, compact, prune, answer, archive) have their names reserved.

/** Wakes the session for a message whose row has already accepted it. */
export const submitUpdate = defineUpdate<{ position: number }, [WakeArgs]>('submit');
export const cancelUpdate = defineUpdate<CancelOutcome, [CommandArgs]>('cancel');
export const cancelQueuedUpdate = defineUpdate<CommandOutcome, [CommandArgs & { message_id: string }]>('cancelQueued');
export const abortUpdate = defineUpdate<AbortOutcome, [CommandArgs]>('abort');
export const publishUpdate = defineUpdate<CommandOutcome, [CommandArgs]>('publish');
export const revertUpdate = defineUpdate<CommandOutcome, [CommandArgs]>('revert');
export const openExistingUpdate = defineUpdate<CommandOutcome, [CommandArgs & { project_id: string }]>('openExisting');
export const closeUpdate = defineUpdate<CloseOutcome, [CommandArgs & { abort?: boolean }]>('close');

/** A reason that is typed into a raw signal is visible in Temporal's history; the client's way keeps it out. */
export const cancelSignal = defineSignal<[{ reason?: string }?]>('cancel');
export const publishSignal = defineSignal('publish');
export const rewindSignal = defineSignal<[{ message_id: string }]>('rewind');

export const statusQuery = defineQuery<SessionStatus>('status');
export const snapshotQuery = defineQuery<SessionSnapshot>('snapshot');

/** Workflow type of a session; its id is the session id, and so is its only argument. */
export const SESSION_WORKFLOW = 'session';
export const TASK_QUEUE = 'perdure';
