import type { Todo, ToolContext, ToolState, ToolTodos } from '../agent/define.ts';
import type { StopSignal } from '../agent/stop.ts';
import { NO_PROJECT_TEXT } from '../agent/tool.ts';
import { changeStrings } from '../domain/redact.ts';
import { byteLength, cleanJson, cleanText, type Json } from '../domain/text.ts';
import type { Claim } from '../store/runs.ts';
import {
  listTodos,
  type LoadedToolCall,
  noteProgress,
  readCache,
  type StateChange,
  type StateScope,
  writeCache,
} from '../store/tools.ts';
import type { ActivityContext } from './context.ts';
import { Progress } from './progress.ts';

/** A tool's context, and what it wrote through it: that lands with its outcome or not at all. */
export interface BufferedContext {
  ctx: ToolContext;
  /** The call is over: what it still says of its progress is not heard. */
  end(): Promise<void>;
  changes(): { state: StateChange[]; todos: Todo[] };
}

/** The context of one call of a stored session. */
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
  const state = bufferedState(session);
  const { project_id } = session;
  const todos = bufferedTodos(project_id !== null, () =>
    project_id === null ? Promise.resolve([]) : listTodos(db, project_id),
  );
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
  return { ctx, end: () => progress.end(), changes: () => ({ state: state.changes(), todos: todos.changes() }) };
}

/** A value with this process's secrets removed from its strings and keys. */
export function hideIn({ hide }: Pick<ActivityContext, 'hide'>, value: Json): Json {
  return JSON.parse(changeStrings(JSON.stringify(value), hide)) as Json;
}

const PREFIXES = { 'user:': 'user', 'app:': 'app', 'temp:': 'temp' } as const;

/** Longest key of state and name of a todo. */
const MAX_NAME_BYTES = 256;

function checkKey(key: string): void {
  if (key === '' || byteLength(key) > MAX_NAME_BYTES || key !== cleanText(key)) {
    throw new Error(`a key of state has 1 to ${MAX_NAME_BYTES} bytes of text`);
  }
}

/** The scope and the bare key of `user:theme` and the like. */
function scopeOf(name: string): { scope: StateScope; key: string } {
  for (const [prefix, scope] of Object.entries(PREFIXES)) {
    if (name.startsWith(prefix)) return { scope, key: name.slice(prefix.length) };
  }
  return { scope: 'session', key: name };
}

function nameOf({ scope, key }: { scope: StateScope; key: string }): string {
  return scope === 'session' ? key : `${scope}:${key}`;
}

function bufferedState(session: LoadedToolCall): { state: ToolState; changes(): StateChange[] } {
  const values = new Map(session.state.map((entry) => [nameOf(entry), entry.value]));
  for (const [key, value] of Object.entries(session.temp)) values.set(nameOf({ scope: 'temp', key }), value);
  const changed = new Map<string, StateChange>();
  const set = (name: string, value: Json) => {
    checkKey(name);
    const clean = cleanJson(value);
    values.set(name, clean);
    changed.set(name, { ...scopeOf(name), value: clean });
  };
  const state: ToolState = {
    get: (name) => values.get(name),
    set,
    has: (name) => values.has(name),
    delete: (name) => {
      values.delete(name);
      changed.set(name, scopeOf(name));
    },
    update: (more) => {
      for (const [name, value] of Object.entries(more)) set(name, value);
    },
    getAll: () => Object.fromEntries(values),
  };
  return { state, changes: () => [...changed.values()] };
}

function bufferedTodos(hasProject: boolean, load: () => Promise<Todo[]>): { todos: ToolTodos; changes(): Todo[] } {
  const changed = new Map<string, Todo>();
  const list = async (): Promise<Todo[]> => {
    const merged = new Map((await load()).map((todo) => [todo.name, todo]));
    for (const todo of changed.values()) merged.set(todo.name, todo);
    return [...merged.values()];
  };
  const todos: ToolTodos = {
    list,
    add: (name) => {
      if (!hasProject) throw new Error(NO_PROJECT_TEXT);
      if (name === '' || byteLength(name) > MAX_NAME_BYTES || name !== cleanText(name)) {
        throw new Error(`a todo's name has 1 to ${MAX_NAME_BYTES} bytes of text`);
      }
      changed.set(name, { name, done: false });
    },
    complete: async (name) => {
      if (!(await list()).some((todo) => todo.name === name)) throw new Error(`there is no todo "${name}"`);
      changed.set(name, { name, done: true });
    },
  };
  return { todos, changes: () => [...changed.values()] };
}
