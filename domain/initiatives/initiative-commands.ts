// The table of commands of initiatives, and what passes between their workflows and activities. The workflow's updates, the HTTP
// routes and OpenAPI derive from the table. A new command is an entry here and an SQL function `ini_<name>` (CONTRIBUTING.md). Data
// and types only, because the workflow sandbox imports it.
import type { ErrorCode } from '../errors.ts';
import type { statusesOf } from './machines.ts';

/**
 * An entry of the table. Its key is the name of the update, the client's method and the OpenAPI operation, and in snake case of the SQL
 * function. Its body is in `INITIATIVE_BODIES` of `wire/initiative-requests.ts`.
 */
export interface InitiativeCommandEntry {
  /** One line, for OpenAPI. */
  summary: string;
  /** Appended to /api/initiatives/:id. */
  path: `/${string}`;
  /** What the client's method returns. */
  answer: 'initiative' | 'decision' | 'blocker' | 'work session' | 'work session and resume' | 'task' | 'task or none';
  /**
   * The ids with which an update of the workflow carries it out by itself, as from Temporal's tools. Null: it has texts, so the client
   * stores the rows first, and its update only names it.
   */
  ids: readonly string[] | null;
  /** Refusals besides `InitiativeNotFound`. */
  errors: readonly ErrorCode[];
}

/** Add entries at the end: handlers are registered in this order, on which histories depend. */
export const INITIATIVE_COMMANDS = {
  updateState: {
    summary: 'Move the position, change the next action or the resume context',
    path: '/state',
    answer: 'initiative',
    ids: null,
    errors: ['TaskAssigned'],
  },
  addDecision: {
    summary: 'Record a decision',
    path: '/decisions',
    answer: 'decision',
    ids: null,
    errors: [],
  },
  addBlocker: {
    summary: 'Record a blocker, and block tasks',
    path: '/blockers',
    answer: 'blocker',
    ids: null,
    errors: ['TaskNotFound', 'InvalidTransition'],
  },
  bypassBlocker: {
    summary: 'Bypass a blocker by a workaround, and unblock its tasks',
    path: '/blockers/:blocker_id/bypass',
    answer: 'blocker',
    ids: null,
    errors: ['BlockerNotFound', 'BlockerResolved', 'InvalidTransition'],
  },
  resolveBlocker: {
    summary: 'Resolve a blocker, and unblock its tasks',
    path: '/blockers/:blocker_id/resolve',
    answer: 'blocker',
    ids: null,
    errors: ['BlockerNotFound', 'BlockerResolved'],
  },
  startSession: {
    summary: 'Start a work session, and resume',
    path: '/sessions',
    answer: 'work session and resume',
    ids: null,
    errors: ['SessionNotFound', 'InvalidTransition', 'WorkspaceNotUsable'],
  },
  endSession: {
    summary: 'End a work session; its tasks are given back',
    path: '/sessions/:work_session/end',
    answer: 'work session',
    ids: ['id'],
    errors: ['WorkSessionNotFound', 'InvalidTransition'],
  },
  assignTask: {
    summary: "Give the next task that nobody holds, of the position's wave, to a work session",
    path: '/tasks/next',
    answer: 'task or none',
    ids: ['work_session'],
    errors: ['WorkSessionNotFound', 'InvalidTransition', 'ReviewRequired'],
  },
  startTask: {
    summary: 'Start a task',
    path: '/tasks/:task_id/start',
    answer: 'task',
    ids: ['task_id', 'work_session'],
    errors: ['TaskNotFound', 'TaskAssigned', 'InvalidTransition', 'WorkSessionNotFound', 'ReviewRequired'],
  },
  reportProgress: {
    summary: 'Report progress of a task',
    path: '/tasks/:task_id/progress',
    answer: 'task',
    ids: ['task_id', 'work_session'],
    errors: ['TaskNotFound', 'TaskAssigned', 'InvalidTransition'],
  },
  completeTask: {
    summary: 'Complete a task: the position moves on',
    path: '/tasks/:task_id/complete',
    answer: 'task',
    ids: ['task_id', 'work_session'],
    errors: ['TaskNotFound', 'TaskAssigned', 'InvalidTransition'],
  },
  review: {
    summary: 'Accept what a resume has found missing',
    path: '/review',
    answer: 'initiative',
    ids: null,
    errors: [],
  },
} as const satisfies Record<string, InitiativeCommandEntry>;

export type InitiativeCommand = keyof typeof INITIATIVE_COMMANDS;

export const INITIATIVE_COMMAND_NAMES = Object.keys(INITIATIVE_COMMANDS) as InitiativeCommand[];

/** The entry of a command. */
export function initiativeCommandEntry(name: InitiativeCommand): InitiativeCommandEntry {
  return INITIATIVE_COMMANDS[name];
}

/** Arguments of an update: the id of the command, and ids of the initiative's rows. */
export type InitiativeArgs = { command_id: string } & Readonly<Record<string, string>>;

type InitiativeStatus = ReturnType<typeof statusesOf<'initiative'>>[number];

/** A work session that is ended unless it gives a sign of life: as crashed if it holds tasks. */
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
  /** The work session that is due first; null: none holds a task or has a chat session. */
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
  /** Ends a work session if its last sign of life is still this one, as crashed if it holds tasks. */
  resetStale(args: { initiative_id: string; work_session: string; sign: string }): Promise<InitiativeMark>;
}
