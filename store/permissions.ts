import { z } from 'zod';
import { RULE_ACTIONS, RULE_SCOPES } from '../domain/permissions.ts';
import { WAITS } from '../domain/runs.ts';
import { call, type Db, jsonb, maybe, maybeOne } from './db.ts';
import { sessionMark } from './results.ts';

/** A rule as rows have it. */
const permissionRule = z.object({
  rule_id: z.string(),
  permission: z.string(),
  pattern: z.string(),
  action: z.enum(RULE_ACTIONS),
  source: z.enum(RULE_SCOPES),
});

/** A session above another one, with the rules of it and its project. */
const sessionAbove = z.object({
  session_id: z.string(),
  agent: z.string(),
  has_project: z.boolean(),
  rules: z.array(permissionRule),
});

const looseRules = z.array(z.looseObject(permissionRule.shape));

/**
 * The rules by which a call is decided: those of its session and project, and of the sessions above a child, the nearest first.
 * They have all that rows have, also what a newer build has written: begin_tool() compares them with those in force.
 */
export const decidingRules = z.object({
  rules: looseRules,
  above: z.array(z.looseObject({ ...sessionAbove.shape, rules: looseRules })),
});

const inForce = z.object({ rules: z.array(permissionRule), above: z.array(sessionAbove) });

/**
 * The rules of a session and its project, in the order in which they were made, and those of the sessions above it, the nearest
 * first. Undefined: there is no such session.
 */
export function rulesInForce(db: Db, sessionId: string): Promise<z.infer<typeof inForce> | undefined> {
  return maybeOne(
    db,
    inForce,
    'SELECT rules_in_force(session_id) AS rules, rules_above(session_id) AS above FROM chat_sessions WHERE session_id = $1',
    [sessionId],
  );
}

/** Takes back a rule of a user's session or its project. False: there is none. */
export async function revokeRule(db: Db, userId: string, sessionId: string, ruleId: string): Promise<boolean> {
  return (await call(db, maybe(z.string()), 'revoke_rule', [sessionId, userId, ruleId])) !== undefined;
}

const givenOutput = z.union([
  z.object({
    /** Of the call: the given one, or one below it. */
    session_id: z.string(),
    run_seq: z.number(),
    message_id: z.string(),
    user_message_id: z.string(),
    model: z.string().nullable(),
    repeated: z.boolean(),
    /** The sessions above that of the call. */
    above: z.array(z.string()),
    ...sessionMark.shape,
  }),
  z.object({
    code: z.enum(['SessionNotFound', 'NotWaiting']),
    decision: z.string().exactOptional(),
    cause: z.string().exactOptional(),
  }),
]);

/** An outcome that a page has given. */
export type GivenOutput = Exclude<z.infer<typeof givenOutput>, { code: unknown }>;

/**
 * Stores what a page gives as the outcome of a call that it carries out, of a user's session or one below. The run goes on; its
 * workflow is yet to be told.
 */
export function giveOutput(
  db: Db,
  { userId, sessionId, toolCallId }: { userId: string; sessionId: string; toolCallId: string },
  given: { output: unknown } | { error: string },
): Promise<z.infer<typeof givenOutput>> {
  return call(db, givenOutput, 'give_output', [sessionId, userId, toolCallId, jsonb(given)]);
}

const answeredCall = z.object({
  run_seq: z.number(),
  /** The run is not over. */
  is_open: z.boolean(),
  is_aborted: z.boolean(),
  calls: z.array(
    z.object({
      tool_call_id: z.string(),
      tool_state: z.string(),
      /** Of which step of the answer it is: a number that is higher for later ones. */
      step: z.number(),
      /** As decided before; null: not yet. */
      approved: z.boolean().nullable(),
      /** It is this call that the run waits for, and what for. */
      waits_for: z.enum(WAITS).nullable(),
    }),
  ),
});

/** The run of an answer of a user's session, and its tool calls, in order. Undefined: there is no such answer. */
export function readAnsweredCalls(
  db: Db,
  userId: string,
  sessionId: string,
  answerId: string,
): Promise<z.infer<typeof answeredCall> | undefined> {
  return call(db, maybe(answeredCall), 'answered_calls', [sessionId, userId, answerId]);
}

export type AnsweredCalls = z.infer<typeof answeredCall>;
