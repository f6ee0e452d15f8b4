import type { Todo, ToolContext } from '../agent/define.ts';
import type { StopSignal } from '../agent/stop.ts';
import { fullName, type StateEdit, toolState } from '../agent/tool-state.ts';
import { toolTodos } from '../agent/tool-todos.ts';
import { changeStrings } from '../domain/redact.ts';
import { cleanJson, type Json } from '../domain/text.ts';
import type { Claim } from '../store/runs.ts';
import { listTodos, type LoadedToolCall, noteProgress, readCache, writeCache } from '../store/tools.ts';
import type { ActivityContext } from './context.ts';
import { Progress } from './progress.ts';

/** A tool's context, and what the tool wrote through it: stored with its outcome or not at all. */
export interface BufferedContext {
  ctx: ToolContext;
  /** The call is over: further progress is ignored. */
  end(): Promise<void>;
  changes(): { state: StateEdit[]; todos: Todo[] };
}

/** The context of one tool call of a stored session. */
export function toolContext(
  context: ActivityContext,
  call: {
    claim: Claim;
    toolCallId: string;
    session: LoadedToolCall;
    workspaceRoot: string;
    stop: StopSignal;
  },
): BufferedContext {
  const { claim, toolCallId, session, workspaceRoot, stop } = call;
  const { db, bus } = context;
  const state = toolState(loadedState(session), new Set(session.incomplete_state));
  const { project_id } = session;
  const todos = toolTodos(project_id === null ? undefined : () => listTodos(db, project_id));
  const log = context.log.child({ session: claim.sessionId, run: claim.runSeq, tool_call: toolCallId });
  const progress = new Progress((data) =>
    noteProgress(db, claim, toolCallId, data).then(
      () => bus.publish({ session: claim.sessionId, run: claim.runSeq, kind: 'stream' }),
      (error: unknown) => log.warn({ err: error }, 'a tool’s progress was not written'),
    ),
  );
  const ctx: ToolContext = {
    signal: stop.signal,
    toolCallId,
    sessionId: claim.sessionId,
    userId: session.user_id,
    projectId: session.project_id,
    workspaceRoot,
    state: state.state,
    todos: todos.todos,
    cache: {
      get: (key) => readCache(db, claim.sessionId, key),
      set: (key, value, { ttlMs }) => writeCache(db, claim.sessionId, key, cleanJson(value), ttlMs),
    },
    log: (message, fields) => log.info(fields ?? {}, message),
    progress: (data) => progress.say(hideIn(context, cleanJson(data))),
  };
  return {
    ctx,
    end: () => progress.end(),
    changes: () => ({ state: state.edits(), todos: todos.changes() }),
  };
}

/** A value with this process's secrets removed from its strings and keys. */
export function hideIn({ hide }: Pick<ActivityContext, 'hide'>, value: Json): Json {
  return JSON.parse(changeStrings(JSON.stringify(value), hide)) as Json;
}

/** The loaded state by full name. */
function loadedState({ state, temp }: LoadedToolCall): Map<string, Json> {
  return new Map([
    ...state.map((entry) => [fullName(entry), entry.value] as const),
    ...Object.entries(temp).map(([key, value]) => [fullName({ scope: 'temp', key }), value] as const),
  ]);
}
