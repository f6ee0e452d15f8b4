// Sessions with children, without a worker.
import type pg from 'pg';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { STEP, TOOL } from './asking.ts';
import { type Answer, call, Session, toolPart } from './session.ts';

export interface Asked {
  background?: boolean;
  fence?: Fence;
  maxChildren?: number;
  tokenLimit?: number;
}

/** Spawns the child of a call, or repeats that. */
export function spawn(
  parent: Session,
  run: number,
  callId: string,
  asked: Asked = {},
): Promise<Answer & { session_id: string }> {
  const { background = false, fence = TOOL, maxChildren = 16, tokenLimit = 1_000 } = asked;
  const task = {
    ...{ agent: 'helper', background, child_id: newId('ses'), message_id: newId('msg'), answer_id: newId('msg') },
    parts: [{ id: newId('prt'), type: 'text', data: { type: 'text', text: 'look' } }],
    ...{
      inherits_model: true,
      model: 'test/fallback',
      workspace_root: '/w',
      max_children: maxChildren,
      token_limit: tokenLimit,
    },
  };
  return call(parent.db, 'spawn_task', [parent.id, run, fence, callId, JSON.stringify(task)]);
}

/** A session whose turn has begun one call, with its child. */
export async function parentAndChild(
  db: pg.Pool,
  asked: Asked = {},
  { calls = ['call_1'], user = 'ada' }: { calls?: readonly string[]; user?: string } = {},
): Promise<{ parent: Session; run: number; child: Session }> {
  const parent = await Session.at('chatting', db, { user });
  const run = await parent.runWithCalls(calls, STEP);
  await parent.beginTool(run, TOOL, 'call_1');
  const { session_id } = await spawn(parent, run, 'call_1', asked);
  return { parent, run, child: new Session(db, session_id, user) };
}

/** Begins a child's run, up to a call. */
export async function withCall(child: Session, callId: string): Promise<void> {
  await child.claim(1, STEP);
  const toolCalls = [{ tool_call_id: callId, name: 'build_and_deploy' }];
  await child.settleStep(1, STEP, { parts: [toolPart(callId, 0)], toolCalls });
}

/** A child in the background, called by a child's run. */
export async function childOf(child: Session): Promise<Session> {
  await withCall(child, 'call_g');
  await child.beginTool(1, TOOL, 'call_g');
  const { session_id } = await spawn(child, 1, 'call_g', { background: true });
  return new Session(child.db, session_id, child.user);
}
