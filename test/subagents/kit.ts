// A model that plays agents and their subagents: what it says follows from the first message of a session.
import { WorkflowNotFoundError } from '@temporalio/client';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { ModelAction } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest, ModelScript } from '../../tools/test-kit/model-server.ts';
import type { Servers } from '../../tools/test-kit/session.ts';
import { TestSession } from '../../tools/test-kit/session.ts';

/** What each session's model says, by a word of its first message: one answer per request, the last one repeated. */
type Roles = Readonly<Record<string, readonly (readonly ModelAction[] | (() => AsyncIterable<ModelAction>))[]>>;

/** The number of requests so far of a session whose first message begins with this word. */
export type Counts = Map<string, number>;

export function play(roles: Roles, counts: Counts = new Map()): ModelScript {
  return (request) => {
    const role = roleOf(request);
    const answers = roles[role];
    if (answers === undefined) throw new Error(`nobody plays "${role}"`);
    const nth = counts.get(role) ?? 0;
    counts.set(role, nth + 1);
    const answer = answers[Math.min(nth, answers.length - 1)]!;
    return typeof answer === 'function' ? answer() : answer;
  };
}

/** The first word of the first user message of a request. */
export function roleOf(request: ChatRequest): string {
  const content = request.messages.find(({ role }) => role === 'user')?.content ?? '';
  const text = typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('');
  return text.split(' ')[0]!;
}

interface TaskRow {
  child_id: string;
  parent_id: string;
  tool_call_id: string;
  background: boolean;
  ended_at: Date | null;
  delivered_at: Date | null;
  message_id: string | null;
  due_at: Date | null;
}

/** The children of a session, oldest first. */
export async function children({ db }: Pick<Servers, 'db'>, parent: string): Promise<TaskRow[]> {
  const { rows } = await db.query<TaskRow>('SELECT * FROM tasks WHERE parent_id = $1 ORDER BY child_id', [parent]);
  return rows;
}

/** The children of a session, once there are so many. */
export function childrenOf(servers: Servers, parent: string, count = 1): Promise<TestSession[]> {
  return eventually(async () => {
    const found = await children(servers, parent);
    if (found.length < count) throw new Error(`${found.length} children`);
    return found.map(({ child_id }) => TestSession.of(servers, child_id));
  });
}

/** The user messages of a session with what they say, in order. */
export async function said({ db }: Pick<Servers, 'db'>, session: string) {
  const { rows } = await db.query<{ id: string; metadata: Record<string, unknown>; text: string }>(
    `SELECT m.id, m.metadata, p.data ->> 'text' AS text FROM chat_messages m JOIN chat_parts p
         ON p.session_id = m.session_id AND p.message_id = m.id
      WHERE m.session_id = $1 AND m.role = 'user' ORDER BY m.position`,
    [session],
  );
  return rows;
}

/** The run of a session with this number, once it exists and has ended. */
export function runOver(session: TestSession, seq: number) {
  return eventually(async () => {
    const run = await session.run(seq);
    if (run === undefined || ['queued', 'running', 'waiting'].includes(run.state))
      throw new Error(`run ${seq} is not over`);
    return run;
  });
}

/** Waits until a session has no activity in progress and one child whose workflow is open: its call waits for that. */
export function untilItWaits({ handle }: TestSession): Promise<void> {
  return eventually(async () => {
    const { raw } = await handle.describe();
    const [activities, open] = [raw.pendingActivities?.length ?? 0, raw.pendingChildren?.length ?? 0];
    if (activities > 0 || open !== 1) throw new Error(`${activities} activities and ${open} children`);
  });
}

/** Whether a session's workflow has completed, or was never started: a worker may begin a turn first, and an abort may end it. */
export function workflowIsOver({ handle }: TestSession): Promise<boolean> {
  return handle.describe().then(
    ({ status }) => status.name === 'COMPLETED',
    (error: unknown) => {
      if (error instanceof WorkflowNotFoundError) return true;
      throw error;
    },
  );
}
