// The commands of a session, each in one place. Everything else derives from this table: the workflow's updates, signals and
// handlers, the client's methods, the HTTP routes, OpenAPI and the tables in docs/. A new command is an entry here and an
// SQL function `cmd_<name>` (CONTRIBUTING.md). It is data only: the workflow sandbox imports it.
import type { ErrorCode } from './errors.ts';
import type { Phase } from './phases.ts';

/**
 * What an argument is.
 *
 * - `id`: an id that the client chose.
 * - `message`: the id of a message; one that is malformed is `MessageNotFound`.
 * - `flag?`: true, or false where it is missing.
 * - `reason?`: words of the user. They are stored in the event log first; only the event's number reaches Temporal.
 * - an array: one of these words.
 */
export type ArgumentKind = 'id' | 'message' | 'flag?' | 'reason?' | readonly string[];

/**
 * What a member of an outcome is, and what the workflow does with it.
 *
 * - `flag`: true or false; nothing.
 * - `aborted run`: number of the run that was asked to stop, or null. The workflow cancels its activity.
 * - `dequeued run`: number of the run that was cancelled. The workflow takes it out of its queue.
 * - `dropped messages`: ids of queued messages that were cancelled. The workflow takes them out of its queue.
 */
export type OutcomeKind = 'flag' | 'aborted run' | 'dequeued run' | 'dropped messages';

/** An entry of the table. Its key names the update, the client's method, the operation of OpenAPI and the SQL function. */
export interface CommandEntry {
  /** One line, for OpenAPI and docs. */
  summary: string;
  method: 'post' | 'delete';
  /** Behind /api/sessions/:id. A path parameter fills the argument of its name; the other arguments are the body. */
  path: `/${string}`;
  /** A second path, with the session in the query. */
  alias?: `/api/${string}`;
  arguments: Readonly<Record<string, ArgumentKind>>;
  /** Members of the outcome besides those of every outcome (`SessionMark`). */
  outcome: Readonly<Record<string, OutcomeKind>>;
  /** Refusals besides `SessionNotFound`. */
  errors: readonly ErrorCode[];
  /** The session is closed behind it: the workflow ends. */
  closes?: true;
}

/** New entries go to the end: handlers are registered in this order, and histories depend on it. */
const COMMANDS = {
  publish: {
    summary: 'Publish what was verified',
    method: 'post',
    path: '/publish',
    arguments: {},
    outcome: {},
    errors: ['InvalidTransition'],
  },
  revert: {
    summary: 'Go back from verifying to building',
    method: 'post',
    path: '/revert',
    arguments: {},
    outcome: {},
    errors: ['InvalidTransition'],
  },
  cancel: {
    summary: 'Cancel what the phase is doing, and abort the run in flight',
    method: 'post',
    path: '/cancel',
    alias: '/api/cancel',
    arguments: { reason: 'reason?' },
    outcome: { cancelled: 'flag', aborted: 'flag', run_seq: 'aborted run' },
    errors: ['InvalidTransition'],
  },
  abort: {
    summary: 'Abort the run in flight; with none it answers `aborted: false`',
    method: 'post',
    path: '/abort',
    arguments: {},
    outcome: { aborted: 'flag', run_seq: 'aborted run' },
    errors: [],
  },
  openExisting: {
    summary: 'Open a project, once for the session',
    method: 'post',
    path: '/open',
    arguments: { project_id: 'id' },
    outcome: {},
    errors: ['InvalidTransition', 'ProjectAlreadyLocked', 'ProjectNotFound'],
  },
  cancelQueued: {
    summary: 'Take back a queued message that no run has begun to answer',
    method: 'delete',
    path: '/messages/:message_id',
    arguments: { message_id: 'message' },
    outcome: { run_seq: 'dequeued run' },
    errors: ['MessageNotFound', 'NotQueued'],
  },
  close: {
    summary: 'Close the session; with a run in flight only where `abort` is true. The next command opens it again',
    method: 'post',
    path: '/close',
    arguments: { abort: 'flag?' },
    outcome: { aborted: 'flag', run_seq: 'aborted run', dropped: 'dropped messages' },
    errors: ['RunInFlight'],
    closes: true,
  },
} as const satisfies Record<string, CommandEntry>;

/** Commands whose routes answer 501 `NotSupported` until they have an entry above. */
export const UNSUPPORTED_COMMANDS = ['rewind', 'unrewind', 'branch', 'compact', 'prune', 'answer', 'archive'] as const;

/** Commands that are signals too, in the order in which their handlers are registered. */
export const SIGNALS = ['cancel', 'publish', 'rewind'] as const;

type Table = typeof COMMANDS;
export type CommandName = keyof Table;
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

/** A command's entry, typed as one of any command. */
export function commandEntry(name: CommandName): CommandEntry {
  return COMMANDS[name];
}

type ArgumentOf<Kind> = Kind extends 'flag?'
  ? boolean | undefined
  : Kind extends 'reason?'
    ? string | null | undefined
    : Kind extends readonly (infer Word)[]
      ? Word
      : string;
type Optional<Kinds> = { [K in keyof Kinds]: Kinds[K] extends `${string}?` ? K : never }[keyof Kinds];

/** The arguments of a command, as the client and HTTP take them. */
export type CommandInput<Name extends CommandName, Kinds = Table[Name]['arguments']> = {
  [K in Exclude<keyof Kinds, Optional<Kinds>>]: ArgumentOf<Kinds[K]>;
} & { [K in Optional<Kinds>]?: ArgumentOf<Kinds[K]> };

/** Every command carries the id under which its outcome is recorded: a repeat gets the same answer. */
export interface CommandArgs {
  /** At most 64 characters; `<command>:<id>` is the key of the record. */
  command_id: string;
  /** Number of the event that holds the text of the reason. */
  reason_seq?: number;
}

/** The arguments of an update: never content. */
export type UpdateArgs<Name extends CommandName> = CommandArgs & Omit<CommandInput<Name>, 'reason'>;

/** What a session is after a command: of two marks the one with the greater event_seq is newer. */
export interface SessionMark {
  phase: Phase;
  project_id: string | null;
  event_seq: number;
}

type MemberOf<Kind> = Kind extends 'flag'
  ? boolean
  : Kind extends 'aborted run'
    ? number | null
    : Kind extends 'dropped messages'
      ? string[]
      : number;

/** What a command answers that was carried out. */
export type CommandOutcome<Name extends CommandName, Kinds = Table[Name]['outcome']> = SessionMark & {
  [K in keyof Kinds]: MemberOf<Kinds[K]>;
};

/** The members of an outcome that are of a kind, with their values. */
export function outcomeMembers(name: CommandName, outcome: object, kind: OutcomeKind): unknown[] {
  const kinds = Object.entries(commandEntry(name).outcome);
  return kinds.flatMap(([member, of]) => (of === kind ? [(outcome as Record<string, unknown>)[member]] : []));
}

/** The run that a command has aborted; null: none. */
export function abortedRun(name: CommandName, outcome: object): number | null {
  const [run] = outcomeMembers(name, outcome, 'aborted run');
  return typeof run === 'number' ? run : null;
}

export const ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
export const ID_EXPECTED = 'an id of 1 to 64 letters, digits, _ and -';

/** What is wrong with an argument, as "expected …"; undefined: nothing. Reasons are checked where they are stored. */
export function argumentFault(kind: ArgumentKind, value: unknown): string | undefined {
  if (kind === 'reason?') return undefined;
  if (kind === 'flag?') return value === undefined || typeof value === 'boolean' ? undefined : 'true or false';
  if (kind === 'id' || kind === 'message') {
    return typeof value === 'string' && ID_PATTERN.test(value) ? undefined : ID_EXPECTED;
  }
  return kind.includes(value as string) ? undefined : kind.map((word) => `"${word}"`).join(' or ');
}

/** `cancelQueued` → `cancel_queued`, as SQL names it. */
export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
