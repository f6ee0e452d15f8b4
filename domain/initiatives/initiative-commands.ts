// The commands of initiatives as their workflows know them. Data and types only, because the workflow sandbox imports it.
import type { statusesOf } from './machines.ts';

/**
 * The commands, and the ids that each needs: with these, an update of the workflow carries it out by itself, as from Temporal's tools.
 * Of a command that has texts (null) the client stores the rows first; its update only names it.
 */
export const INITIATIVE_COMMANDS = {
  updateState: null,
  addDecision: null,
  addBlocker: null,
  bypassBlocker: null,
  resolveBlocker: null,
  startSession: null,
  endSession: ['id'],
  assignTask: ['work_session'],
  startTask: ['task_id', 'work_session'],
  reportProgress: ['task_id', 'work_session'],
  completeTask: ['task_id', 'work_session'],
  review: null,
} as const satisfies Record<string, readonly string[] | null>;

export type InitiativeCommand = keyof typeof INITIATIVE_COMMANDS;

export const INITIATIVE_COMMAND_NAMES = Object.keys(INITIATIVE_COMMANDS) as InitiativeCommand[];

/** Arguments of an update: the id of the command, and ids of the initiative's rows. */
export type InitiativeArgs = { command_id: string } & Readonly<Record<string, string>>;

type InitiativeStatus = ReturnType<typeof statusesOf<'initiative'>>[number];

/** A work session that holds tasks, and is ended as crashed unless it gives a sign of life. */
export interface Watched {
  work_session: string;
  /** Its last sign of life. */
  sign: string;
  /** Milliseconds since 1970, by Postgres' clock. */
  due_at: number;
  /** Milliseconds from when this was read. */
  due_in_ms: number;
}

/** What a workflow knows of its initiative. */
export interface InitiativeMark {
  /** As Temporal may know it. */
  user_id: string;
  project_id: string | null;
  status: InitiativeStatus;
  /** The number of the newest event: of two marks the one with the greater number is newer. */
  event_seq: number;
  /** The work session that is due first; null: none holds a task. */
  watched: Watched | null;
}

/** A loaded initiative. */
export interface LoadedInitiative extends InitiativeMark {
  settings: { idle_close_ms: number; continue_as_new_events: number };
}

/** The outcome of a command: ids, or the code of a refusal. */
export interface InitiativeResult {
  ok: boolean;
  code?: string | undefined;
  id?: string | undefined;
  task_id?: string | null | undefined;
  decision_id?: string | undefined;
}

/** The answer to the query `snapshot`. */
export interface InitiativeSnapshot {
  loading: boolean;
  status: InitiativeStatus | null;
  event_seq: number;
  watched: Watched | null;
  history_events: number;
}

/** The activities of initiatives' workflows, all of them short work in the database. */
export interface InitiativeActivities {
  loadInitiative(args: { initiative_id: string }): Promise<LoadedInitiative>;
  applyInitiative(args: {
    initiative_id: string;
    command: InitiativeCommand;
    command_id: string;
    /** Ids; null: the command is recorded. */
    args: Readonly<Record<string, string>> | null;
  }): Promise<InitiativeResult & { mark: InitiativeMark }>;
  /** Ends a work session as crashed if its last sign of life is still this one. */
  resetStale(args: { initiative_id: string; work_session: string; sign: string }): Promise<InitiativeMark>;
}
