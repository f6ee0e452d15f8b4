import path from 'node:path';
import type { UIMessage } from 'ai';
import { newId } from '../domain/ids.ts';
import type { Phase } from '../domain/phases.ts';
import { cleanJson, type Json } from '../domain/text.ts';
import type { AgentDefinition, Todo, ToolCache, ToolContext, ToolTodos } from './define.ts';
import { toolState } from './tool-state.ts';

/**
 * A session in this process only, for `run`, tests and scripts. For tools it behaves like a stored one: their writes to
 * state and todos are stored with their result or not at all.
 */
export interface MemorySession {
  readonly id: string;
  readonly userId: string;
  readonly agent: AgentDefinition;
  /** Absolute path; it has to exist. */
  readonly workspaceRoot: string;
  phase: Phase;
  projectId: string | null;
  /** The transcript; `run` adds to it. */
  readonly messages: UIMessage[];
  readonly state: Map<string, Json>;
  readonly todos: Map<string, Todo>;
  readonly cache: ToolCache;
}

/** A new session in phase chatting. */
export function memorySession(options: {
  agent: AgentDefinition;
  workspaceRoot: string;
  userId?: string;
}): MemorySession {
  return {
    id: newId('ses'),
    userId: options.userId ?? 'local',
    agent: options.agent,
    workspaceRoot: path.resolve(options.workspaceRoot),
    phase: 'chatting',
    projectId: null,
    messages: [],
    state: new Map(),
    todos: new Map(),
    cache: memoryCache(),
  };
}

/** A tool's context over a session, and `commit`, which applies its writes. */
export interface MemoryToolContext {
  ctx: ToolContext;
  commit: () => void;
}

/** The context of one call. The tool sees its own writes at once, others after `commit`. */
export function memoryToolContext(
  session: MemorySession,
  call: { toolCallId: string; signal: AbortSignal; progress?: (data: Json) => void },
): MemoryToolContext {
  const state = new Map(session.state);
  const todos = new Map([...session.todos].map(([name, todo]) => [name, { ...todo }]));
  const ctx: ToolContext = {
    signal: call.signal,
    toolCallId: call.toolCallId,
    sessionId: session.id,
    userId: session.userId,
    projectId: session.projectId,
    workspaceRoot: session.workspaceRoot,
    state: toolState(state).state,
    todos: todosOver(todos),
    cache: session.cache,
    log: () => {},
    progress: (data) => call.progress?.(data),
  };
  const commit = () => {
    replace(session.state, state);
    replace(session.todos, todos);
  };
  return { ctx, commit };
}

function todosOver(todos: Map<string, Todo>): ToolTodos {
  return {
    list: () => Promise.resolve([...todos.values()]),
    add: (name) => void todos.set(name, { name, done: false }),
    complete: (name) => {
      if (!todos.has(name)) return Promise.reject(new Error(`there is no todo "${name}"`));
      todos.set(name, { name, done: true });
      return Promise.resolve();
    },
  };
}

function memoryCache(): ToolCache {
  const entries = new Map<string, { value: Json; until: number }>();
  return {
    get: (key) => {
      const entry = entries.get(key);
      return Promise.resolve(entry && entry.until > Date.now() ? entry.value : undefined);
    },
    set: (key, value, { ttlMs }) => {
      entries.set(key, { value: cleanJson(value), until: Date.now() + ttlMs });
      return Promise.resolve();
    },
  };
}

function replace<Value>(target: Map<string, Value>, source: Map<string, Value>): void {
  target.clear();
  for (const [key, value] of source) target.set(key, value);
}
