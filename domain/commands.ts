import type { CommandName, SessionMark } from './command-table.ts';
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
  settings: WorkflowSettings;
}

/** A load of a session by its workflow: its number in the execution, and the workflow's time in epoch milliseconds. */
export interface LoadArgs {
  session_id: string;
  load: number;
  asked_at: number;
}

/** Settings that a workflow gets when it loads. Durations in milliseconds. */
export interface WorkflowSettings {
  idle_close_ms: number;
  continue_as_new_events: number;
  heartbeat_timeout_ms: number;
  /** Maximum duration of a run. Activities end themselves then; the server's time-out is only the fallback. */
  wall_clock_ms: number;
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
  /** Number of the attempt at this step, from 1; the workflow increases it after a retryable failure of the provider. */
  attempt: number;
  /** When the run started: the workflow's time in epoch milliseconds. */
  started_at: number;
}

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

/** Why a step or tool call did not begin. */
export type NotBegun =
  | { kind: 'ended'; state: RunState; code: string | null }
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
    }
  /** `reason` is one of our own texts, never a provider's. */
  | { kind: 'retry'; code: string; reason: string; delay_ms: number };

/** Arguments of an activity without the session's id, which the activity takes from the workflow's id. */
export type Sent<Args> = Omit<Args, 'session_id'>;

/** The activities of session workflows. */
export interface SessionActivities {
  /** @throws SessionNotFound */
  loadSession(args: LoadArgs): Promise<LoadedSession>;
  applyCommand(args: ApplyArgs): Promise<AppliedCommand>;
  streamStep(args: Sent<StepArgs>): Promise<StepOutcome>;
  runTool(args: Sent<ToolArgs>): Promise<ToolOutcome>;
  settleRun(args: SettleArgs): Promise<RunOutcome>;
}

/** Result of `runTool`. `begun`: it changed the session's phase, and its tool is to be run now. */
export type ToolOutcome = NotBegun | (SessionMark & { kind: 'settled' | 'begun' });

/** How a run ended. */
export interface RunOutcome {
  kind: 'ended';
  state: RunState;
  code: string | null;
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
