import type { ChildRun, CommandName, SessionMark, StopMeant } from './command-table.ts';
import type { CompactionReason } from './compaction.ts';
import type { Phase, PhaseEvent } from './phases.ts';
import type { RunEnd, RunState } from './runs.ts';

export type { SessionMark };

// Arguments and results of updates and activities: ids, enums, counts and digests, never content.

/** Who caused an event: a user through the client, an operator through a raw signal, the system, or a tool of an agent. */
export const ACTORS = ['user', 'operator', 'system', 'tool'] as const;
/** The senders of commands. */
export type Actor = Exclude<(typeof ACTORS)[number], 'tool'>;

/** Why a command was not carried out, from the session's row. */
export interface Refusal {
  ok: false;
  code: string;
  phase?: Phase;
  event?: PhaseEvent;
  state?: RunState;
  locked_project_id?: string;
  /** What has hidden the message, or how the wait of a tool call has ended. */
  cause?: string;
  /** What was decided about a tool call. */
  decision?: string;
  /** The decisions that are offered. */
  offered?: string[];
  /** The argument at fault. */
  field?: string;
}

/** A command with its arguments, or a refused signal to record. */
export type CommandRequest =
  | ({ command: CommandName } & Readonly<Record<string, unknown>>)
  | { command: 'refuse'; name: string; code: string };

/** Arguments of `applyCommand`. */
export interface ApplyArgs {
  session_id: string;
  actor: Actor;
  /** `<command>:<id>`, under which the outcome is recorded. */
  command_id: string;
  request: CommandRequest;
  /** Of a command that stops a run. */
  meant?: StopMeant;
}

/**
 * Result of `applyCommand`: the recorded outcome or refusal. `closed` is set only if it is not what the command implies: true
 * if a refused or repeated command left the session closed, false if the session was reopened after a repeated close.
 */
export type AppliedCommand = (CarriedOut | Refusal) & { closed?: boolean };
export type CarriedOut = { ok: true } & SessionMark & Record<string, unknown>;

/** A run in the workflow's queue. */
export interface QueuedRun {
  run_seq: number;
  message_id: string;
  /** `provider/model`; null: the agent's own. */
  model: string | null;
}

/** A message that was accepted: the arguments of the update `submit`. */
export interface Wake extends QueuedRun {
  /** The session when it was accepted, if turns before it were not told to the workflow. */
  mark?: SessionMark;
  /** A run that was ended in its row for this one, by an edit or for a new answer: its activity is cancelled. */
  aborted_run?: number;
  /** Children whose runs were ended in their rows: their workflows are told. */
  ended_children?: ChildRun[];
}

/** A session that a tool call has opened, and its agent. */
export interface OpenedChild {
  session_id: string;
  agent: string;
}

/**
 * Result of `deliverTask`: whether a child without an open run is over (its own children may work in the background), and which
 * session is to be told of which run.
 */
export interface Delivered {
  over: boolean;
  news: (QueuedRun & { session_id: string }) | null;
}

/** A tool call to run. */
export interface ToolCallRef {
  tool_call_id: string;
  /** The tool's name; `unknown` if the agent has no such tool, because text of a model must not enter a history. */
  name: string;
}

/** An open run when a workflow loads. */
export interface LoadedRun extends QueuedRun {
  state: Extract<RunState, 'queued' | 'running' | 'waiting'>;
  /** Steps settled so far. */
  step: number;
  /** An abort was requested and not yet carried out. */
  abort: boolean;
  /** Epoch milliseconds; null: not started. */
  started_at: number | null;
  /** While it waits for the output of a page: for how much longer, in milliseconds. */
  wait_ms?: number;
  /** Calls of the last settled step without an outcome. */
  open_calls: ToolCallRef[];
}

/** Everything a workflow needs at its start. */
export interface LoadedSession extends SessionMark {
  epoch: number;
  user_id: string;
  agent: string;
  paused: boolean;
  runs: LoadedRun[];
  /** Another session's tool call has opened it. */
  is_child: boolean;
  settings: WorkflowSettings;
}

/** A load of a session by its workflow: its number in the execution, and the workflow's time in epoch milliseconds. */
export interface LoadArgs {
  session_id: string;
  load: number;
  asked_at: number;
  /** Run id of the execution that has continued as this one. */
  continues?: string;
}

/** Settings that a workflow gets when it loads. Durations in milliseconds. */
export interface WorkflowSettings {
  idle_close_ms: number;
  continue_as_new_events: number;
  heartbeat_timeout_ms: number;
  /** The model for messages without one. */
  default_model: string;
}

/** Arguments of `streamStep`; epoch and ordinal are the fence. */
export interface StepArgs {
  session_id: string;
  run_seq: number;
  step: number;
  epoch: number;
  ordinal: number;
  /** Number of the attempt at this step, from 1; the workflow increases it after a retryable failure. */
  attempt: number;
  /** How many attempts before this one ended because the store of attachments was away; unset: none. */
  waited?: number;
  /** When the run started: the workflow's time in epoch milliseconds. */
  started_at: number;
  /** `ask`: the step may return `compact`; `done`: that was done for this step. */
  compaction: 'ask' | 'done';
}

/** Arguments of `compact`; epoch and ordinal are the fence. */
export interface CompactArgs {
  session_id: string;
  run_seq: number;
  epoch: number;
  ordinal: number;
  /** When the run started: the workflow's time in epoch milliseconds. */
  started_at: number;
  reason: CompactionReason;
  /** Tokens of the conversation, as the step counted them; unset for one by hand. */
  tokens?: number;
}

/**
 * Result of `compact`. `none`: there was nothing to compact; `failed`: no summary could be made, and the turn goes on without
 * one. A run by hand is over afterwards (`ended`).
 */
export type CompactOutcome = NotBegun | { kind: 'compacted'; result: 'summarized' | 'pruned' | 'none' | 'failed' };

/** Arguments of `runTool`; epoch and ordinal are the fence. */
export interface ToolArgs extends ToolCallRef {
  session_id: string;
  run_seq: number;
  step: number;
  epoch: number;
  ordinal: number;
  /** An earlier activity has begun the call and returned the transition at its start, without running the tool. */
  begun?: true;
}

/** Why a step or tool call did not begin. `children`: runs of children that ended with the run, whose workflows are told. */
export type NotBegun =
  | { kind: 'ended'; state: RunState; code: string | null; children?: ChildRun[] }
  | { kind: 'earlier'; runs: QueuedRun[] }
  | { kind: 'paused' }
  | { kind: 'abort' }
  | { kind: 'lost' };

/** Result of `streamStep`. */
export type StepOutcome =
  | NotBegun
  | {
      kind: 'settled';
      /** The run's state after this step; running: there is more to do. */
      state: RunState;
      code: string | null;
      finish_reason: string;
      model: string;
      tokens: number;
      tool_calls: ToolCallRef[];
      /** Of children that ended with the run. */
      children?: ChildRun[];
      also?: UnitOutcome[];
    }
  /** The conversation is to be compacted before this step. */
  | { kind: 'compact'; reason: CompactionReason; tokens?: number }
  /** `reason` is one of our own texts, never a provider's. */
  | { kind: 'retry'; code: string; reason: string; delay_ms: number };

/** The outcomes of the steps and tool calls after the activity's own that settled at once, in order. */
export type UnitOutcome = Extract<StepOutcome | ToolOutcome, { kind: 'settled' }>;

/** Arguments of an activity without the session's id, which the activity takes from the workflow's id. */
export type Sent<Args> = Omit<Args, 'session_id'>;

/** The activities of session workflows. */
export interface SessionActivities {
  /** @throws SessionNotFound */
  loadSession(args: LoadArgs): Promise<LoadedSession>;
  applyCommand(args: ApplyArgs): Promise<AppliedCommand>;
  streamStep(args: Sent<StepArgs>): Promise<StepOutcome>;
  runTool(args: Sent<ToolArgs>): Promise<ToolOutcome>;
  compact(args: Sent<CompactArgs>): Promise<CompactOutcome>;
  settleRun(args: SettleArgs): Promise<RunOutcome>;
  deliverTask(args: { session_id: string }): Promise<Delivered>;
}

/**
 * Result of `runTool`. `begun`: it changed the session's phase, and its tool is to be run now. `waiting`: the call needs an answer of
 * the user, or for at most `wait_ms` the output of a page, and is to be run then. `task`: a child works, and the call is to be made
 * again when the workflow is told of this run. `child`: its workflow is to be started.
 */
export type ToolOutcome =
  | NotBegun
  | (SessionMark & { kind: 'begun' })
  | (SessionMark & { kind: 'waiting'; wait_ms: number | null })
  | { kind: 'task'; child: OpenedChild }
  | (SessionMark & { kind: 'settled'; also?: UnitOutcome[]; child?: OpenedChild });

/** How a run ended. */
export interface RunOutcome {
  kind: 'ended';
  state: RunState;
  code: string | null;
  /** Of children that ended with it: their workflows are told. */
  children?: ChildRun[];
}

/** Arguments of `settleRun`. */
export interface SettleArgs {
  session_id: string;
  run_seq: number;
  end: Exclude<RunEnd, 'finished'>;
  code?: string;
}

/** Result of the query `snapshot`: the workflow's view of the session. */
export interface SessionSnapshot extends SessionMark {
  /** The execution has not loaded the session yet: the other members are not known. */
  loading: boolean;
  user_id: string;
  pending_tool: ToolCallRef | null;
  queue: QueuedRun[];
  run: (QueuedRun & { step: number }) | null;
  paused: boolean;
  history_events: number;
}
