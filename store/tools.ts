import { z } from 'zod';
import type { UntimedRecord } from '../domain/permissions.ts';
import { PHASE_EVENTS, type PhaseEvent, PHASES } from '../domain/phases.ts';
import type { PendingTool } from '../domain/runs.ts';
import type { StateChange } from '../domain/state-changes.ts';
import type { Json } from '../domain/text.ts';
import type { Todo } from '../domain/todo.ts';
import { call, type Db, jsonb, many, maybe } from './db.ts';
import type { InstructionChanges, InstructionWatch } from './instructions.ts';
import { decidingRules } from './permissions.ts';
import { jsonColumn, lost, notBegun, sessionContext, sessionMark, underway } from './results.ts';
import { callClaimed, type Claim, type WorkDone } from './runs.ts';
import { incompleteScopes, stateEntry } from './state.ts';

/** The AI SDK part of a tool call. */
const callPart = z.looseObject({ type: z.string(), toolCallId: z.string(), state: z.string() });

const loadedToolCall = z.object({
  data: callPart,
  tool_state: z.string(),
  message_id: z.string(),
  user_id: z.string(),
  project_id: z.string().nullable(),
  phase: z.enum(PHASES),
  agent: z.string(),
  workspace_root: z.string().nullable(),
  ...sessionContext,
  /** How long the run has worked, in milliseconds, by Postgres' clock. */
  elapsed_ms: z.number(),
  ...decidingRules.shape,
  /** Nobody can be asked. */
  headless: z.boolean(),
  state: z.array(stateEntry),
  incomplete_state: incompleteScopes,
  temp: z.record(z.string(), jsonColumn),
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

/** The rules by which a call was decided. */
export type DecidingRules = z.infer<typeof decidingRules>;

/** What was decided about a call before it begins, by these rules. `approval` is that of the AI SDK's part. */
export type PermissionToBegin = DecidingRules &
  (
    | { action: 'allow'; record: UntimedRecord }
    | { action: 'deny'; record: UntimedRecord; approval: object }
    | { action: 'ask'; record: Pick<UntimedRecord, 'rule' | 'scope'>; approval: object }
  );

/** What a call requires to begin. */
export interface ToolStartRequest {
  raise: RaiseRequest | null;
  /** Unset: the call cannot run, so it asks for nothing. */
  permission?: PermissionToBegin;
  /** The page carries out the call within this time, in milliseconds. */
  page_ms?: number;
  watch?: InstructionWatch | undefined;
}

/** What a page gave as the outcome of a call; late: nothing, in time. */
const given = z.union([
  z.object({ output: jsonColumn }),
  z.object({ error: z.string() }),
  z.object({ late: z.literal(true) }),
]);

const toolRefusal = z.object({
  kind: z.literal('refused'),
  code: z.enum(['InvalidTransition', 'ProjectAlreadyLocked', 'ProjectNotFound', 'ProjectRequired']),
  phase: z.enum(PHASES).exactOptional(),
  event: z.enum(PHASE_EVENTS).exactOptional(),
  locked_project_id: z.string().exactOptional(),
});

const settledTool = z.object({
  kind: z.literal('settled'),
  ...sessionMark.shape,
  /** Another attempt has settled it: its child, whose workflow may not have been started. */
  child: z.object({ session_id: z.string(), agent: z.string() }).exactOptional(),
});
const toolClaim = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['begun', 'again']),
    ...sessionMark.shape,
    data: callPart.exactOptional(),
    given: given.exactOptional(),
  }),
  z.object({ kind: z.literal('waiting'), ...sessionMark.shape, wait_ms: z.number().nullable() }),
  z.object({ kind: z.literal('rules'), ...decidingRules.shape }),
  settledTool,
  toolRefusal,
  underway,
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
  /** Instruction files before and after; stored whatever the outcome is. */
  changes?: InstructionChanges;
  work?: WorkDone & { step: number };
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
 * Claims a call before it runs. `again`: an earlier attempt began it and left no outcome; `settled`: it has an outcome; `waiting`:
 * for an answer, or for `wait_ms` for the page; `rules`: other ones are in force than those by which it was decided. A
 * repeat by the same attempt returns `begun`. `watch` is stored before the tool runs.
 */
export function beginTool(
  db: Db,
  claim: Claim,
  pending: Omit<PendingTool, 'started_at'>,
  { raise, ...request }: ToolStartRequest,
): Promise<z.infer<typeof toolClaim>> {
  const raised = jsonb({ ...raise, ...request });
  return callClaimed(db, toolClaim, 'begin_tool', claim, [jsonb(pending), raised, claim.worker ?? null]);
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
export function listTodos(db: Db, projectId: string): Promise<Todo[]> {
  return many(
    db,
    todoRow,
    'SELECT name, done_at IS NOT NULL AS done FROM project_todos WHERE project_id = $1 ORDER BY created_at, name',
    [projectId],
  );
}
