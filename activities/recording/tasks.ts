import { DEFAULT_LIMITS, limitsOf } from '../../agent/definition/define.ts';
import { taskMessageText, type TaskResult } from '../../agent/tools/task-tool.ts';
import type { TaskRequest } from '../../agent/tools/task-tool.ts';
import type { Bus } from '../../bus/bus.ts';
import { newId } from '../../domain/ids.ts';
import { byteLength, cleanText, headOf } from '../../domain/text.ts';
import type { Db } from '../../store/db.ts';
import { deliverTask, type NewTask, type ResultMessage } from '../../store/tasks.ts';
import type { LoadedToolCall } from '../../store/tools.ts';
import type { ActivityContext } from '../activity-context.ts';
import { sessionWorkspace } from '../prompt/step-prompt.ts';

// Subagents: what a worker does to open a child, and to tell its parent that it is over.

/**
 * The child of a tool call, to be stored.
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export function newTask(
  context: ActivityContext,
  parent: { sessionId: string; projectId: string | null; call: LoadedToolCall },
  { agent: id, prompt, background }: TaskRequest,
): NewTask {
  const { agents, settings } = context;
  const { sessionId, projectId, call } = parent;
  const agent = agents.get(call.agent);
  return {
    agent: id,
    background,
    child_id: newId('ses'),
    message_id: newId('msg'),
    answer_id: newId('msg'),
    parts: textParts(prompt),
    inherits_model: agents.get(id).model === undefined,
    model: agent.model ?? null,
    workspace_root: sessionWorkspace(context, { ...call, sessionId, project_id: projectId }),
    max_children: settings.maxSubagents,
    token_limit: limitsOf(agent).tokens,
  };
}

function textParts(text: string): NewTask['parts'] {
  return [{ id: newId('prt'), type: 'text', data: { type: 'text', text: cleanText(text) } }];
}

/**
 * Injects the result of a child in the background into its parent, once, and says who is to be told, see deliver_task. A worker
 * begins the turn of the result at once.
 */
export async function deliverResult(
  { db, bus }: { db: Db; bus: Bus },
  childId: string,
): Promise<Exclude<Awaited<ReturnType<typeof deliverTask>>, { kind: 'inject' }>> {
  let told = await deliverTask(db, childId, null);
  if (told.kind === 'inject') told = await deliverTask(db, childId, resultMessage(told));
  if (told.kind === 'inject') throw new Error('a result that is to be injected was not');
  if (told.kind === 'tell' && told.background) {
    const { session_id: session, run_seq: run } = told;
    bus.publish({ session, run, kind: 'accepted' });
    bus.publish({ session, kind: 'status' });
  }
  return told;
}

function resultMessage(result: TaskResult & { tool_call_id: string }): ResultMessage {
  const { session_id, tool_call_id, agent, state } = result;
  const most = DEFAULT_LIMITS.tool_output_bytes;
  const isLong = byteLength(result.text) > most;
  const text = isLong ? `${headOf(result.text, most)}\n[The rest is in the session ${session_id}.]` : result.text;
  return {
    id: newId('msg'),
    answer_id: newId('msg'),
    parts: textParts(taskMessageText({ ...result, text })),
    metadata: { origin: 'task', task: { session_id, tool_call_id, agent, state } },
  };
}
