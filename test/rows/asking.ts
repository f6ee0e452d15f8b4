// Tool calls that ask, or that a page carries out, without a worker.
import type pg from 'pg';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { type Answer, call, Session } from './session.ts';

export const STEP: Fence = [0, 1, 1];
export const TOOL: Fence = [0, 2, 1];
/** Of the attempt after an answer. */
export const AFTER: Fence = [0, 3, 1];

interface Asked {
  /** What the tool's `permission(input)` returned. */
  pattern?: string;
  decisions?: readonly string[];
  /** By which the worker has decided; default none. */
  rules?: readonly object[];
  /** The sessions above a child with theirs; default none. */
  above?: readonly object[];
}

const BY = { rule: 'manifest-0', scope: 'manifest' };

/** What a worker decides about a call that asks, as begin_tool takes it. */
export function asks(callId: string, { pattern = '5', decisions, rules = [], above = [] }: Asked = {}): object {
  const offered = decisions ?? ['once', 'session', 'always', 'reject'];
  const descriptor = { permission: 'pay', pattern, ...BY, decisions: offered };
  return { permission: { rules, above, action: 'ask', record: BY, approval: { id: callId, descriptor } } };
}

/** The same for a call that a rule denies or allows. */
export function decided(action: 'deny' | 'allow', rules: readonly object[] = []): object {
  const approval = { id: 'call_1', isAutomatic: true, approved: false, reason: 'a rule of the manifest denies it' };
  const record = { ...BY, decision: action, decided_by: 'rule' };
  return { permission: { rules, above: [], action, record, ...(action === 'deny' && { approval }) } };
}

/** A session whose run waits for an answer about `call_1`; in a project of its own unless that is null. */
export async function asking(
  db: pg.Pool,
  { project = newId('prj'), ...asked }: Asked & { project?: string | null } = {},
): Promise<{ session: Session; run: number; project: string | null }> {
  const session = await Session.at('chatting', db, project === null ? {} : { project });
  const run = await session.runWithCalls(['call_1'], STEP);
  await session.beginTool(run, TOOL, 'call_1', asks('call_1', asked));
  return { session, run, project };
}

/** A session whose run waits for the page to carry out `call_1`, for an hour. */
export async function waitingForPage(
  db: pg.Pool,
  calls: readonly string[] = ['call_1'],
): Promise<{ session: Session; run: number }> {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(calls, STEP);
  await session.beginTool(run, TOOL, 'call_1', { page_ms: 3_600_000 });
  return { session, run };
}

export const answer = (session: Session, decision: string, callId = 'call_1', command = newId('cmd')) =>
  session.apply('answer', { tool_call_id: callId, decision }, command);

/** Gives an outcome as the page of a user. */
export function give(session: Session, given: object, { callId = 'call_1', user = session.user } = {}) {
  return call<Answer>(session.db, 'give_output', [session.id, user, callId, JSON.stringify(given)]);
}
