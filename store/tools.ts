import { z } from 'zod';
import { PHASE_EVENTS, type PhaseEvent, PHASES } from '../domain/phases.ts';
import type { PendingTool } from '../domain/runs.ts';
import type { Json } from '../domain/text.ts';
import { call, column, type Db, jsonb, many, maybe } from './db.ts';
import { json, lost, notBegun, sessionMark } from './results.ts';
import { callClaimed, type Claim } from './runs.ts';

/** The scopes of state: this session, this user, all users, this turn. */
export type StateScope = 'session' | 'user' | 'app' | 'temp';

/** One change of state; without a value the key is deleted. */
export interface StateChange {
  scope: StateScope;
  key: string;
  value?: Json;
}

const storedScope = z.enum(['session', 'user', 'app']);

const loadedToolCall = z.object({
  /** The AI SDK part. */
  data: z.looseObject({ type: z.string(), toolCallId: z.string(), state: z.string() }),
  tool_state: z.string(),
  message_id: z.string(),
  user_id: z.string(),
  project_id: z.string().nullable(),
  phase: z.enum(PHASES),
  agent: z.string(),
  workspace_root: z.string().nullable(),
  /** How long ago the run began, in milliseconds, by Postgres' clock. */
  elapsed_ms: z.number(),
  state: z.array(z.object({ scope: storedScope, key: z.string(), value: json })),
  /** Scopes that hold more than what was loaded. */
  incomplete_state: z.array(storedScope),
  temp: z.record(z.string(), json),
});

/** A tool call's part and the session around it. */
export type LoadedToolCall = z.infer<typeof loadedToolCall>;

/** The phase event that a call asks for, if any, and its project. */
export interface RaiseRequest {
  event?: PhaseEvent;
  at?: 'start' | 'result';
  project: 'new' | 'required' | null;
  /** The id of a new project. */
  new_project_id?: string;
}

const toolRefusal = z.object({
  kind: z.literal('refused'),
  code: z.enum(['InvalidTransition', 'ProjectAlreadyLocked', 'ProjectNotFound', 'ProjectRequired']),
  phase: z.enum(PHASES).exactOptional(),
  event: z.enum(PHASE_EVENTS).exactOptional(),
  locked_project_id: z.string().exactOptional(),
});

/** Why a tool may not run, for the model. */
export type ToolRefusal = z.infer<typeof toolRefusal>;

const settledTool = z.object({ kind: z.literal('settled'), ...sessionMark.shape });
const toolClaim = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['begun', 'again']), ...sessionMark.shape }),
  settledTool,
  toolRefusal,
  ...notBegun,
]);
const toolSettlement = z.discriminatedUnion('kind', [settledTool, lost]);

/** What a tool writes besides its outcome, in the same transaction. */
export interface ToolEffects {
  event?: PhaseEvent;
  state: StateChange[];
  todos: { name: string; done: boolean }[];
  /** The full output, if the outcome contains a truncated one. */
  aside?: string;
}

export function loadToolCall(
  db: Db,
  sessionId: string,
  runSeq: number,
  toolCallId: string,
): Promise<LoadedToolCall | undefined> {
  return call(db, maybe(loadedToolCall), 'load_tool_call', [sessionId, runSeq, toolCallId]);
}

/**
 * Claims a call before it runs. `again`: an earlier attempt began it and left no outcome; `settled`: it has an outcome. A
 * repeat with the same `pending` returns `begun`.
 */
export function beginTool(
  db: Db,
  claim: Claim,
  pending: PendingTool,
  raise: RaiseRequest | null,
): Promise<z.infer<typeof toolClaim>> {
  return callClaimed(db, toolClaim, 'begin_tool', claim, [jsonb(pending), jsonb(raise)]);
}

/** Stores a call's outcome and its other writes, and clears pending_tool. `illegal`: see finish_tool. */
export function finishTool(
  db: Db,
  claim: Claim,
  toolCallId: string,
  outcome: { data: Record<string, unknown>; effects: ToolEffects; illegal: string },
): Promise<z.infer<typeof toolSettlement>> {
  const { data, effects, illegal } = outcome;
  return callClaimed(db, toolSettlement, 'finish_tool', claim, [toolCallId, jsonb(data), jsonb(effects), illegal]);
}

/** Stores a tool's progress for readers. It is removed with the end of the call. */
export async function noteProgress(db: Db, claim: Claim, toolCallId: string, data: Json): Promise<void> {
  await db.query(
    `UPDATE chat_runs SET progress = $4, updated_at = clock_timestamp()
      WHERE session_id = $1 AND seq = $2 AND fence = $3 AND state = 'running'`,
    [claim.sessionId, claim.runSeq, claim.fence, JSON.stringify({ tool_call_id: toolCallId, data })],
  );
}

const todoRow = z.object({ name: z.string(), done: z.boolean() });

/** A project's todos, oldest first. */
export function listTodos(db: Db, projectId: string): Promise<z.infer<typeof todoRow>[]> {
  return many(
    db,
    todoRow,
    'SELECT name, done_at IS NOT NULL AS done FROM project_todos WHERE project_id = $1 ORDER BY created_at, name',
    [projectId],
  );
}

/** A cached value of the session that has not expired. */
export async function readCache(db: Db, sessionId: string, key: string): Promise<Json | undefined> {
  const sql = 'SELECT value FROM tool_cache WHERE session_id = $1 AND key = $2 AND expires_at > clock_timestamp()';
  const [value] = await column(db, json, sql, [sessionId, key]);
  return value;
}

/** Caches a value for `ttlMs`, and deletes the session's expired values. */
export async function writeCache(db: Db, sessionId: string, key: string, value: Json, ttlMs: number): Promise<void> {
  await db.query(
    `WITH expired AS (
       DELETE FROM tool_cache WHERE session_id = $1 AND key <> $2 AND expires_at <= clock_timestamp()
     )
     INSERT INTO tool_cache (session_id, key, value, expires_at)
     SELECT session_id, $2, $3::jsonb, clock_timestamp() + $4 * interval '1 millisecond'
       FROM chat_sessions WHERE session_id = $1 FOR KEY SHARE
     ON CONFLICT (session_id, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`,
    [sessionId, key, JSON.stringify(value), ttlMs],
  );
}
