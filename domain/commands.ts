import type { CommandName, SessionMark } from './command-table.ts';
import type { Phase, PhaseEvent } from './phases.ts';
import type { PendingTool, RunEnd, RunState } from './runs.ts';

export type { SessionMark };

// What travels between client, workflow and activities: ids, enums, counts and digests, never content.

/**
 * Who caused an event: a user through the client, an operator through a raw signal, the system itself, or a tool of an
 * agent, which sends no commands.
 */
export const ACTORS = ['user', 'operator', 'system', 'tool'] as const;
export type Actor = Exclude<(typeof ACTORS)[number], 'tool'>;

/** Why a command was not carried out, as the row judged it. */
export interface Refusal {
  ok: false;
  code: string;
  phase?: Phase;
  event?: PhaseEvent;
  state?: RunState;
  locked_project_id?: string;
}

/** What an activity asks the row to do: a command with its arguments, or to record that a signal was refused. */
export type CommandRequest =
  | ({ command: CommandName } & Readonly<Record<string, unknown>>)
  | { command: 'refuse'; name: string; code: string };

/** What `applyCommand` is asked to do. */
export interface ApplyArgs {
  session_id: string;
  actor: Actor;
  /** `<command>:<id>`, under which the outcome is recorded. */
  command_id: string;
  request: CommandRequest;
}

/**
 * What `applyCommand` answers: the recorded outcome or refusal. `closed` is there only where it is not what the command
 * implies: true where a refused or repeated command left the session closed, false where the session was reopened after a
 * close that is repeated.
 */
export type AppliedCommand = (CarriedOut | Refusal) & { closed?: boolean };
export type CarriedOut = { ok: true } & SessionMark & Record<string, unknown>;

/** A run as the workflow's queue holds it. */
export interface QueuedRun {
  run_seq: number;
  message_id: string;
  /** `provider/model`; null: the agent's own. */
  model: string | null;
}

/** A tool call that waits for its turn. */
export interface ToolCallRef {
  tool_call_id: string;
  /** The tool's name, or `unknown` where no tool of the agent has it: a model's invention never enters a history. */
  name: string;
}

/** An open run as a workflow finds it when it loads. */
export interface LoadedRun extends QueuedRun {
  state: Extract<RunState, 'queued' | 'running' | 'waiting'>;
  /** Steps settled so far. */
  step: number;
  /** An abort was asked for and not yet carried out. */
  abort: boolean;
  /** Epoch milliseconds; null: not begun. */
  started_at: number | null;
  /** Calls of the last settled step that have no outcome. */
  open_calls: ToolCallRef[];
}

/** Everything a workflow needs at its start. */
export interface LoadedSession extends SessionMark {
  epoch: number;
  user_id: string;
  agent: string;
  closed: boolean;
  paused: boolean;
  pending_tool: PendingTool | null;
  runs: LoadedRun[];
  settings: WorkflowSettings;
}

/** A load of a session by its workflow: the how many-th of the execution, and its time there in epoch milliseconds. */
export interface LoadArgs {
  session_id: string;
  load: number;
  asked_at: number;
}

/** Settings that a workflow learns when it loads; they hold until it starts anew. Durations in milliseconds. */
export interface WorkflowSettings {
  idle_close_ms: number;
  continue_as_new_events: number;
  heartbeat_timeout_ms: number;
  /** Longest that a run may take; activities end themselves at this, the server's time-out is only the fallback. */
  wall_clock_ms: number;
  /** The agent's model, where a message names none. */
  default_model: string;
}

/** Which step of which run to make, and with what right to write. */
export interface StepArgs {
  session_id: string;
  run_seq: number;
  step: number;
  epoch: number;
  ordinal: number;
  /** Which try of this step it is, from 1; raised by the workflow after a retryable failure of the provider. */
  attempt: number;
  /** When the run began, in epoch milliseconds of the workflow's time. */
  started_at: number;
}

/** Which tool call to run, and with what right to write. */
export interface ToolArgs extends ToolCallRef {
  session_id: string;
  run_seq: number;
  step: number;
  epoch: number;
  ordinal: number;
  /** An activity before this one has begun the call, told of the transition at its start, and run nothing. */
  begun?: true;
}

/** Why a piece of work did not begin. */
export type NotBegun =
  | { kind: 'ended'; state: RunState; code: string | null }
  | { kind: 'earlier'; runs: QueuedRun[] }
  | { kind: 'paused' }
  | { kind: 'abort' }
  | { kind: 'lost' };

/** What became of a step. */
export type StepOutcome =
  | NotBegun
  | {
      kind: 'settled';
      /** The run's state behind this step: running where there is more to do. */
      state: RunState;
      code: string | null;
      finish_reason: string;
      model: string;
      tokens: number;
      tool_calls: ToolCallRef[];
    }
  /** `reason` is one of the few that we have words for, none of a provider's. */
  | { kind: 'retry'; code: string; reason: string; delay_ms: number };

/** What a workflow sends of an activity's arguments: whose session it is the activity knows by the workflow's id. */
export type Sent<Args> = Omit<Args, 'session_id'>;

/** What a workflow may ask for. */
export interface SessionActivities {
  /** @throws SessionNotFound */
  loadSession(args: LoadArgs): Promise<LoadedSession>;
  applyCommand(args: ApplyArgs): Promise<AppliedCommand>;
  streamStep(args: Sent<StepArgs>): Promise<StepOutcome>;
  runTool(args: Sent<ToolArgs>): Promise<ToolOutcome>;
  settleRun(args: SettleArgs): Promise<RunOutcome>;
}

/** What became of a tool call. `begun`: it moved the session's phase, and is to be run now. */
export type ToolOutcome = NotBegun | (SessionMark & { kind: 'settled' | 'begun' });

/** How a run ended, as its row says. */
export interface RunOutcome {
  kind: 'ended';
  state: RunState;
  code: string | null;
}

/** What `settleRun` is asked to write. */
export interface SettleArgs {
  session_id: string;
  run_seq: number;
  end: Exclude<RunEnd, 'finished'>;
  code?: string;
}

/** What the query `snapshot` answers: the workflow's own view of the session. */
export interface SessionSnapshot extends SessionMark {
  /** The session has just begun or continued as new and has not read its row: nothing else here is known yet. */
  loading: boolean;
  user_id: string;
  pending_tool: ToolCallRef | null;
  queue: QueuedRun[];
  run: (QueuedRun & { step: number }) | null;
  paused: boolean;
  history_events: number;
}
