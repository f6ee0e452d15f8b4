import type { PermissionAnswer } from './permissions.ts';
import type { RefusalScope } from './refusals.ts';

/** The states of a run. `queued`, `running` and `waiting` are open, the others are final. */
export const RUN_STATES = ['queued', 'running', 'waiting', 'finished', 'aborted', 'error', 'cancelled'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** How a run may end. */
export type RunEnd = 'finished' | 'aborted' | 'error';

/**
 * The fence of an attempt: (epoch, ordinal, attempt), compared in that order by Postgres as an int[]. The epoch increases
 * with every load by a workflow, the ordinal with every step or tool call that the workflow schedules, the attempt with
 * every retry by the Temporal server; it is 0 for a head start, which a worker makes before the activity exists. The fourth part exists once an attempt has renewed its own claim, after a write
 * with an unknown result.
 */
export type Fence = readonly [epoch: number, ordinal: number, attempt: number, renewal?: number];

/** Codes with which a run ends in the state `error`. */
export const RUN_ERROR_CODES = [
  'LimitReached',
  'RateLimited',
  'ProviderUnavailable',
  'NetworkError',
  'Overloaded',
  'ProviderUnauthorized',
  'ProviderRejected',
  'ContextTooLong',
  'CompactionFailed',
  'ContentFilter',
  'EmptyAnswer',
  'UnreadableAnswer',
  'ModelNotConfigured',
  'AgentNotConfigured',
  'WorkspaceNotUsable',
  'StateNotSet',
  'AttachmentsUnavailable',
  'Internal',
] as const;
export type RunErrorCode = (typeof RUN_ERROR_CODES)[number];

/** Why a run ends as an error. The message tells the user what to do. */
export interface RunFailure {
  code: RunErrorCode;
  message: string;
  /** The provider refused the request itself, or to go on with the turn: what the model no longer sees from now on. */
  refused?: RefusalScope;
  /** What was thrown, for the log. */
  cause?: unknown;
}

/** What a tool call waits for: the user's approval, or the output of the page that carries it out. */
export const WAITS = ['approval', 'output'] as const;
export type Wait = (typeof WAITS)[number];

/** A tool call of a session below that waits for an approval or for a page, both to be given there, or in any session above. */
export type Question = {
  session_id: string;
  agent: string;
  /** The child's answer with the call. */
  message_id: string;
  tool_call_id: string;
  /** The tool's name. */
  tool: string;
  /** It is below a call in the background, for which the turn does not wait. */
  background: boolean;
} & (
  | {
      for: 'approval';
      /** What the tool's `permission(input)` returned. */
      pattern: string;
      /** The answers that are offered. */
      decisions: PermissionAnswer[];
    }
  | { for: 'output' }
);

/** The status of a session (R5). `started_at` is in epoch milliseconds. */
export interface SessionStatus {
  state: 'idle' | 'busy' | 'retrying' | 'waiting' | 'error';
  attempt?: number;
  message?: string;
  started_at?: number;
  message_id?: string;
  /** While children wait for approvals or pages: their calls, those of the nearest sessions first. */
  questions?: Question[];
}

/** The tool call in flight, as in `sessions.pending_tool`; never its input. `started_at` is in ISO 8601. */
export interface PendingTool {
  tool_call_id: string;
  name: string;
  message_id: string;
  step: number;
  started_at: string;
}

/** Keys of a message's metadata that only the system writes; those of clients are removed. */
export const RESERVED_METADATA = [
  'usage',
  'steps',
  'discarded',
  'hidden_by',
  'turn',
  'system_prompt_digest',
  'snapshot_id',
  'session_id',
] as const;

/** The status message while a conversation is compacted. */
export const COMPACTING = 'compacting';

/** The status message while a run waits for a retry: "rate limited, retry in 12 s". */
export function retryMessage(reason: string, delayMs: number): string {
  return `${reason}, retry in ${Math.max(1, Math.round(delayMs / 1000))} s`;
}
