import { z } from 'zod';
import { PHASES } from '../domain/phases.ts';
import { call, type Db, jsonb } from './db.ts';
import { lost } from './results.ts';
import { callClaimed, type Claim } from './runs.ts';

// Subagents: sessions that tool calls have opened (store/sql/tasks.sql).

const taskResult = z.object({
  session_id: z.string(),
  agent: z.string(),
  tool_call_id: z.string(),
  state: z.enum(['finished', 'aborted', 'error', 'cancelled', 'erased']),
  code: z.string().nullable(),
  message: z.string().nullable(),
  text: z.string(),
});

const spawned = { session_id: z.string(), agent: z.string(), run_seq: z.number(), is_new: z.boolean() };
const spawnOutcome = z.discriminatedUnion('kind', [
  lost,
  z.object({ kind: z.literal('abort') }),
  z.object({ kind: z.literal('refused'), code: z.enum(['TooDeep', 'TooMany']) }),
  z.object({ kind: z.literal('spawned'), ...spawned }),
  z.object({ kind: z.literal('waiting'), ...spawned }),
  z.object({ kind: z.literal('over'), ...taskResult.shape }),
]);

/** A child to open. Its ids are used only by the first attempt that stores one. */
export interface NewTask {
  agent: string;
  background: boolean;
  child_id: string;
  message_id: string;
  answer_id: string;
  parts: readonly { id: string; type: string; data: object }[];
  /** The child has the model of the parent's turn, else `model`, else its agent's; unless its agent has one of its own. */
  inherits_model: boolean;
  model: string | null;
  /** Absolute path. */
  workspace_root: string;
  max_children: number;
  /** Of the parent's turn. */
  token_limit: number;
}

/**
 * Opens the child of a tool call, once per call, or says how it stands: `spawned` works in the background, for `waiting` the call
 * waits, `over` has ended.
 */
export function spawnTask(
  db: Db,
  claim: Claim,
  toolCallId: string,
  task: NewTask,
): Promise<z.infer<typeof spawnOutcome>> {
  return callClaimed(db, spawnOutcome, 'spawn_task', claim, [toolCallId, jsonb(task)]);
}

const delivery = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['early', 'none', 'later']) }),
  z.object({ kind: z.literal('inject'), ...taskResult.shape }),
  z.object({
    kind: z.literal('tell'),
    session_id: z.string(),
    user_id: z.string(),
    project_id: z.string().nullable(),
    phase: z.enum(PHASES),
    agent: z.string(),
    background: z.boolean(),
    run_seq: z.number(),
    message_id: z.string(),
    model: z.string().nullable(),
  }),
]);

/** The parent's message with a result. */
export interface ResultMessage {
  id: string;
  answer_id: string;
  parts: readonly { id: string; type: string; data: object }[];
  metadata: object;
}

/** Whom to tell of a child that is over. `inject`: call it again with the message. See deliver_task. */
export function deliverTask(db: Db, childId: string, message: ResultMessage | null): Promise<z.infer<typeof delivery>> {
  return call(db, delivery, 'deliver_task', [childId, jsonb(message)]);
}

/** Claims children that are over, of which a parent is to be told. */
export function claimDueTasks(db: Db, limit: number): Promise<string[]> {
  return call(db, z.array(z.string()), 'claim_due_tasks', [limit]);
}
