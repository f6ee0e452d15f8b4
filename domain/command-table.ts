// The table of commands. The workflow's updates, signals and handlers, the client's methods, the HTTP routes, OpenAPI and the
// tables in docs/ derive from it. A new command is an entry here and an SQL function `cmd_<name>` (CONTRIBUTING.md). Data
// only, because the workflow sandbox imports it.
import type { ErrorCode } from './errors.ts';
import { MODEL_PATTERN } from './model-ref.ts';
import type { PartData } from './part-data.ts';
import { ANSWERS, type PermissionAnswer } from './permissions.ts';
import type { Phase } from './phases.ts';

/**
 * The kind of an argument.
 *
 * - `id`: an id that the client chose.
 * - `message`: the id of a message; a malformed one is `MessageNotFound`.
 * - `flag?`: true or false; default false.
 * - `true by default?`: true or false; default true.
 * - `reason?`: text of the user. It is stored in the event log first; only the event's number reaches Temporal.
 * - `metadata?`: an object of the user. It is stored in the event log first, where the command's function finds it.
 * - `message?`, `model?`, `count?`: the id of a message, `provider/model`, and a number of at least 1; all optional.
 * - an array: one of these words.
 */
export type ArgumentKind =
  | 'id'
  | 'message'
  | 'message?'
  | 'model?'
  | 'count?'
  | 'flag?'
  | 'true by default?'
  | 'reason?'
  | 'metadata?'
  | readonly string[];

/**
 * The kind of a member of an outcome, and what the workflow does with it.
 *
 * - `flag`: true or false. Nothing.
 * - `aborted run`: number of the run to abort, or null. The workflow cancels its activity.
 * - `dequeued run`: number of the cancelled run. The workflow removes it from its queue.
 * - `dequeued runs`: numbers of all runs that were queued, and were cancelled. The workflow removes them from its queue.
 * - `queued run`: number of a run that was queued under the outcome's `message_id`. The workflow adds it to its queue.
 * - `answered run`: number of a run that waited for the answer, or null. The workflow goes on with it.
 * - `answered child`: the run of a child that waited for the answer, or null. The workflow tells its workflow.
 * - `dropped messages`: ids of cancelled queued messages. Histories from before `dequeued runs` have only these, so the workflow
 *   removes them, too.
 * - `ended children`: runs of children that ended with this. The workflow tells their workflows.
 * - `count`: a number. Nothing.
 * - `call`: the id of a tool call. Nothing.
 * - `answer`: what was decided about a tool call. Nothing.
 * - `message id`: the id of a message. Nothing.
 * - `session`: the id of a new session. Nothing; the client returns the session itself.
 * - `message`: the id of a message. Nothing; the client returns the message itself, which Temporal never sees.
 */
export type OutcomeKind =
  | 'flag'
  | 'aborted run'
  | 'dequeued run'
  | 'dequeued runs'
  | 'queued run'
  | 'answered run'
  | 'answered child'
  | 'dropped messages'
  | 'ended children'
  | 'count'
  | 'call'
  | 'answer'
  | 'message id'
  | 'session'
  | 'message';

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
  /** It ends a run: the one that it means when it is accepted (`StopMeant`), however late it is carried out. */
  stops?: true;
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
    arguments: { reason: 'reason?', message_id: 'message?' },
    outcome: { cancelled: 'flag', aborted: 'flag', run_seq: 'aborted run', children: 'ended children' },
    errors: ['InvalidTransition', 'MessageNotFound', 'NotUserMessage'],
    stops: true,
  },
  abort: {
    summary: 'Abort the run in flight, or that of a message; if it is over, it answers `aborted: false`',
    method: 'post',
    path: '/abort',
    arguments: { message_id: 'message?' },
    outcome: { aborted: 'flag', run_seq: 'aborted run', children: 'ended children' },
    errors: ['MessageNotFound', 'NotUserMessage'],
    stops: true,
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
    outcome: {
      aborted: 'flag',
      run_seq: 'aborted run',
      dropped: 'dropped messages',
      dequeued: 'dequeued runs',
      children: 'ended children',
    },
    errors: ['RunInFlight'],
    closes: true,
  },
  rewind: {
    summary: 'Go back to a user message: hides what came after it, and the next message replaces it',
    method: 'post',
    path: '/rewind',
    arguments: { message_id: 'message', abort: 'flag?' },
    outcome: {
      aborted: 'flag',
      run_seq: 'aborted run',
      dropped: 'dropped messages',
      dequeued: 'dequeued runs',
      hidden: 'count',
      message: 'message',
      children: 'ended children',
    },
    errors: ['MessageNotFound', 'NotUserMessage', 'MessageHidden', 'RunInFlight', 'ChildSession'],
  },
  unrewind: {
    summary: 'Undo the latest rewind; not after a new message',
    method: 'post',
    path: '/unrewind',
    arguments: {},
    outcome: { message_id: 'message id', shown: 'count' },
    errors: ['NothingToUnrewind', 'RunInFlight'],
  },
  branch: {
    summary: 'Open a new session with copies of the messages up to one of them',
    method: 'post',
    path: '/branch',
    arguments: {
      from_message_id: 'message',
      metadata: 'metadata?',
      model: 'model?',
      from_start_message_id: 'message?',
      tail_turns: 'count?',
    },
    outcome: { session_id: 'session' },
    errors: [
      'MessageNotFound',
      'MessageHidden',
      'RunInFlight',
      'InvalidRange',
      'ModelNotConfigured',
      'TooLarge',
      'ChildSession',
    ],
  },
  archive: {
    summary: 'Take the session out of lists, or with `archived: false` back into them',
    method: 'post',
    path: '/archive',
    arguments: { archived: 'true by default?' },
    outcome: { archived: 'flag' },
    errors: [],
  },
  compact: {
    summary: 'Replace the turns before the newest ones by a summary; the answer comes before that is made',
    method: 'post',
    path: '/compact',
    arguments: {},
    outcome: { message_id: 'message id', run_seq: 'queued run' },
    errors: ['RunInFlight', 'NothingToCompact'],
  },
  prune: {
    summary: 'Take large tool outputs out of what the model sees; the answer comes before that is done',
    method: 'post',
    path: '/prune',
    arguments: {},
    outcome: { message_id: 'message id', run_seq: 'queued run' },
    errors: ['RunInFlight', 'NothingToPrune'],
  },
  answer: {
    summary: 'Answer a tool call that asks: allow it once, for this session, always in this project, or reject it',
    method: 'post',
    path: '/answer',
    arguments: { tool_call_id: 'id', decision: ANSWERS, reason: 'reason?' },
    outcome: {
      tool_call_id: 'call',
      decision: 'answer',
      message_id: 'message id',
      run_seq: 'answered run',
      child: 'answered child',
    },
    errors: ['NotWaiting', 'NotOffered', 'ProjectRequired'],
  },
} as const satisfies Record<string, CommandEntry>;

/** Commands that are signals too, in the order in which their handlers are registered. */
export const SIGNALS = ['cancel', 'publish', 'rewind', 'unrewind'] as const;

type Table = typeof COMMANDS;
export type CommandName = keyof Table;
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

/** The entry of a command. */
export function commandEntry(name: CommandName): CommandEntry {
  return COMMANDS[name];
}

interface ArgumentTypes {
  id: string;
  message: string;
  'message?': string | null | undefined;
  'model?': string | null | undefined;
  'count?': number | null | undefined;
  'flag?': boolean | undefined;
  'true by default?': boolean | undefined;
  'reason?': string | null | undefined;
  'metadata?': Record<string, unknown> | null | undefined;
}
type ArgumentOf<Kind> = Kind extends readonly (infer Word)[]
  ? Word
  : Kind extends keyof ArgumentTypes
    ? ArgumentTypes[Kind]
    : never;
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
  /** Of a command that stops a run; a repeat may come with another one. Unset: what is in flight when it is carried out. */
  meant?: StopMeant;
}

/** What a command that stops a run means, as the session was when the host accepted it. */
export interface StopMeant {
  /** The run of its message, null if there was none yet; without a message the run in flight, or else the last one that was over. */
  run_seq: number | null;
  /** Whether any run was in flight. */
  in_flight: boolean;
  /** The newest event. */
  event_seq: number;
}

/** The arguments of an update: never content. */
export type UpdateArgs<Name extends CommandName> = CommandArgs & Omit<CommandInput<Name>, 'reason' | 'metadata'>;

/** The state of a session after a command. Of two marks the one with the greater event_seq is newer. */
export interface SessionMark {
  phase: Phase;
  project_id: string | null;
  event_seq: number;
}

/** A run of a child. */
export interface ChildRun {
  session_id: string;
  run_seq: number;
  message_id: string;
}

interface MemberTypes {
  flag: boolean;
  'aborted run': number | null;
  'dequeued run': number;
  'dequeued runs': number[];
  'queued run': number;
  'answered run': number | null;
  'answered child': ChildRun | null;
  'dropped messages': string[];
  'ended children': ChildRun[];
  count: number;
  call: string;
  answer: PermissionAnswer;
  'message id': string;
  session: string;
  message: UserMessage;
}

/** A stored user message. */
export interface UserMessage {
  id: string;
  role: 'user';
  metadata: Record<string, unknown>;
  parts: PartData[];
}

/** The outcome of a command that was carried out. */
export type CommandOutcome<Name extends CommandName, Kinds = Table[Name]['outcome']> = SessionMark & {
  [K in keyof Kinds]: MemberTypes[Kinds[K] & OutcomeKind];
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

/** The run of the session that an answer lets go on, if it is one of the session. */
export function answeredRuns(name: CommandName, outcome: object): number[] {
  return outcomeMembers(name, outcome, 'answered run').filter((run) => typeof run === 'number');
}

/** The run of a child that an answer lets go on, if any. */
export function answeredChildren(name: CommandName, outcome: object): ChildRun[] {
  return outcomeMembers(name, outcome, 'answered child').flatMap((run) => (run as ChildRun | null | undefined) ?? []);
}

/** The runs of children that a command has ended. */
export function endedChildren(name: CommandName, outcome: object): ChildRun[] {
  return outcomeMembers(name, outcome, 'ended children').flatMap((runs) => (runs as ChildRun[] | undefined) ?? []);
}

/** Whether `meant` of a command's arguments is as the client sends it. */
export function isStopMeant({ run_seq: run, event_seq: event }: Partial<StopMeant>): boolean {
  return (run === null || Number.isSafeInteger(run)) && Number.isSafeInteger(event);
}

export const ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
export const ID_EXPECTED = 'an id of 1 to 64 letters, digits, _ and -';

/** What an argument was expected to be; undefined: it is valid. Reasons and metadata are checked where they are stored. */
export function argumentFault(kind: ArgumentKind, value: unknown): string | undefined {
  if (kind === 'reason?' || kind === 'metadata?') return undefined;
  if (typeof kind === 'string' && kind.endsWith('?') && (value === undefined || value === null)) return undefined;
  if (kind === 'flag?' || kind === 'true by default?') {
    return value === undefined || typeof value === 'boolean' ? undefined : 'true or false';
  }
  if (kind === 'count?') {
    return Number.isSafeInteger(value) && Number(value) >= 1 ? undefined : 'a whole number of at least 1';
  }
  if (kind === 'model?') {
    return typeof value === 'string' && MODEL_PATTERN.test(value) ? undefined : 'a model such as "openai/gpt-5"';
  }
  if (kind === 'id' || kind === 'message' || kind === 'message?') {
    return typeof value === 'string' && ID_PATTERN.test(value) ? undefined : ID_EXPECTED;
  }
  return kind.includes(value as string) ? undefined : kind.map((word) => `"${word}"`).join(' or ');
}

/** `cancelQueued` → `cancel_queued`, the name in SQL. */
export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
