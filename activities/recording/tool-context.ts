import type { ToolContext } from '../../agent/definition/define.ts';
import { giveInitiative, joinedInitiative } from '../../agent/initiatives/initiative-tools.ts';
import type { StopSignal } from '../../agent/stop-signal.ts';
import { toolCache } from '../../agent/tools/tool-cache.ts';
import { toolTodos } from '../../agent/tools/tool-todos.ts';
import { changeStrings } from '../../domain/change-strings.ts';
import type { StateChange } from '../../domain/state-changes.ts';
import { fullName } from '../../domain/state-keys.ts';
import { editsOf, State } from '../../domain/state.ts';
import { cleanJson, type Json } from '../../domain/text.ts';
import type { Todo } from '../../domain/todo.ts';
import { readCached, writeCached } from '../../store/cached-results.ts';
import type { Claim } from '../../store/runs.ts';
import { listTodos, type LoadedToolCall, noteProgress } from '../../store/tools.ts';
import type { ActivityContext } from '../activity-context.ts';
import { turnSessionOfRow } from '../prompt/step-prompt.ts';
import { ToolProgress } from './tool-progress.ts';

/** A tool's context, and what the tool wrote through it: stored with its outcome or not at all. */
export interface BufferedContext {
  ctx: ToolContext;
  /** The call is over: further progress is ignored. */
  end(): Promise<void>;
  changes(): { state: StateChange[]; todos: Todo[] };
}

/** The context of one tool call of a stored session. */
export function toolContext(
  context: ActivityContext,
  call: {
    claim: Claim;
    toolCallId: string;
    /** The tool's name. */
    name: string;
    session: LoadedToolCall;
    workspaceRoot: string;
    stop: StopSignal;
    maxOutputBytes: number;
  },
): BufferedContext {
  const { claim, toolCallId, session, workspaceRoot, stop, maxOutputBytes } = call;
  const place = { sessionId: claim.sessionId, userId: session.user_id, tool: `${session.agent}/${call.name}` };
  const { db, bus } = context;
  const state = loadedState(session);
  const { project_id } = session;
  const todos = toolTodos(project_id === null ? undefined : () => listTodos(db, project_id));
  const log = context.log.child({ session: claim.sessionId, run: claim.runSeq, tool_call: toolCallId });
  const progress = new ToolProgress((data) =>
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
    session: turnSessionOfRow(claim.sessionId, session),
    projectId: session.project_id,
    workspaceRoot,
    state,
    todos: todos.todos,
    cache: toolCache({
      read: (scope, key) => readCached(db, { ...place, scope }, key),
      write: (scope, key, value, ttlMs) => writeCached(db, { ...place, scope }, key, value, ttlMs),
    }),
    log: (message, fields) => log.info(fields ?? {}, message),
    progress: (data) => progress.say(hideIn(context, cleanJson(data))),
  };
  const { metadata } = ctx.session;
  giveInitiative(
    ctx,
    context.initiativeCalls({
      ...{ userId: session.user_id, sessionId: claim.sessionId, agent: session.agent, toolCallId, maxOutputBytes },
      initiativeId: joinedInitiative(metadata),
      ...{ projectId: session.project_id, workspaceRoot: session.workspace_root },
    }),
  );
  return {
    ctx,
    end: () => progress.end(),
    changes: () => ({ state: editsOf(state), todos: todos.changes() }),
  };
}

/** A value with this process's secrets removed from its strings and keys. */
export function hideIn({ hide }: Pick<ActivityContext, 'hide'>, value: Json): Json {
  return JSON.parse(changeStrings(JSON.stringify(value), hide)) as Json;
}

/** The loaded state. */
function loadedState({ state, temp, incomplete_state }: LoadedToolCall): State {
  const values = [
    ...state.map((entry) => [fullName(entry), entry.value] as const),
    ...Object.entries(temp).map(([key, value]) => [fullName({ scope: 'temp', key }), value] as const),
  ];
  const versions = new Map(state.map((entry) => [fullName(entry), entry.version]));
  return new State(values, { incomplete: new Set(incomplete_state), versions });
}
