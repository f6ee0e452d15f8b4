// The table of commands. The workflow's updates, signals and handlers, the client's methods, the HTTP routes, OpenAPI and the
// tables in docs/ derive from it. A new command is an entry here and an SQL function `cmd_<name>` (CONTRIBUTING.md). Data
// only, because the workflow sandbox imports it.
import type { ErrorCode } from './errors.ts';
import type { Phase } from './phases.ts';

/**
 * The kind of an argument.
 *
 * - `id`: an id that the client chose.
 * - `message`: the id of a message; a malformed one is `MessageNotFound`.
 * - `flag?`: true or false; default false.
 * - `reason?`: text of the user. It is stored in the event log first; only the event's number reaches Temporal.
 * - an array: one of these words.
 */
export type ArgumentKind = 'id' | 'message' | 'flag?' | 'reason?' | readonly string[];

/**
 * The kind of a member of an outcome, and what the workflow does with it.
 *
 * - `flag`: true or false. Nothing.
 * - `aborted run`: number of the run to abort, or null. The workflow cancels its activity.
 * - `dequeued run`: number of the cancelled run. The workflow removes it from its queue.
 * - `dropped messages`: ids of cancelled queued messages. The workflow removes them from its queue.
 */
export type OutcomeKind = 'flag' | 'aborted run' | 'dequeued run' | 'dropped messages';

/** An entry of the table. Its key is the name of the update, the client's method, the OpenAPI operation and the SQL function. */
export interface CommandEntry {
  /** One line, for OpenAPI and docs. */
  summary: string;
  method: 'post' | 'delete';
  /** Appended to /api/sessions/:id. Path parameters are the arguments of their names; the other arguments are the body. */
  path: `/${string}`;
  /** A second path, with the session in the query. */
  alias?: `/api/${string}`;
  arguments: Readonly<Record<string, ArgumentKind>>;
  /** Members of the outcome besides those of every outcome (`SessionMark`). */
  outcome: Readonly<Record<string, OutcomeKind>>;
  /** Refusals besides `SessionNotFound`. */
  errors: readonly ErrorCode[];
  /** It closes the session: the workflow ends. */
  closes?: true;
}

/** Add entries at the end: handlers are registered in this order, on which histories depend. */
export const COMMANDS = {
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

/** The entry of a command. */
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

/** Members of every command's arguments. The outcome is recorded under the id: a repeat gets the same outcome. */
export interface CommandArgs {
  /** At most 64 characters; `<command>:<id>` is the key of the record. */
  command_id: string;
  /** Number of the event that holds the text of the reason. */
  reason_seq?: number;
}

/** The arguments of an update: never content. */
export type UpdateArgs<Name extends CommandName> = CommandArgs & Omit<CommandInput<Name>, 'reason'>;

/** The state of a session after a command. Of two marks the one with the greater event_seq is newer. */
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

/** The outcome of a command that was carried out. */
export type CommandOutcome<Name extends CommandName, Kinds = Table[Name]['outcome']> = SessionMark & {
  [K in keyof Kinds]: MemberOf<Kinds[K]>;
};

/** The values of those members of an outcome that are of the given kind. */
export function outcomeMembers(name: CommandName, outcome: object, kind: OutcomeKind): unknown[] {
  const kinds = Object.entries(commandEntry(name).outcome);
  return kinds.flatMap(([member, of]) => (of === kind ? [(outcome as Record<string, unknown>)[member]] : []));
}

/** The run that a command aborts; null: none. */
export function abortedRun(name: CommandName, outcome: object): number | null {
  const [run] = outcomeMembers(name, outcome, 'aborted run');
  return typeof run === 'number' ? run : null;
}

export const ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
export const ID_EXPECTED = 'an id of 1 to 64 letters, digits, _ and -';

/** What an argument was expected to be; undefined: it is valid. Reasons are checked where they are stored. */
export function argumentFault(kind: ArgumentKind, value: unknown): string | undefined {
  if (kind === 'reason?') return undefined;
  if (kind === 'flag?') return value === undefined || typeof value === 'boolean' ? undefined : 'true or false';
  if (kind === 'id' || kind === 'message') {
    return typeof value === 'string' && ID_PATTERN.test(value) ? undefined : ID_EXPECTED;
  }
  return kind.includes(value as string) ? undefined : kind.map((word) => `"${word}"`).join(' or ');
}

/** `cancelQueued` → `cancel_queued`, the name in SQL. */
export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
