import path from 'node:path';
import type { UIMessage } from 'ai';
import { newId } from '../domain/ids.ts';
import type { Phase } from '../domain/phases.ts';
import { cleanJson, type Json } from '../domain/text.ts';
import type { AgentDefinition, Todo, ToolCache, ToolContext, ToolState, ToolTodos } from './define.ts';

/**
 * A session that lives in this process only, for `run`, tests and scripts. It keeps the same promises as a stored one
 * where a tool can tell: what a tool writes to state and todos lands with its result or not at all.
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

/** A tool's context over a session, and `commit`, which lets its writes land. */
export interface MemoryToolContext {
  ctx: ToolContext;
  commit: () => void;
}

/** The context of one call. Its writes are seen by its own reads at once, by others after `commit`. */
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
    state: stateOver(state),
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

function stateOver(values: Map<string, Json>): ToolState {
  const set = (key: string, value: Json) => void values.set(key, cleanJson(value));
  return {
    get: (key) => values.get(key),
    set,
    has: (key) => values.has(key),
    delete: (key) => void values.delete(key),
    update: (more) => Object.entries(more).forEach(([key, value]) => set(key, value)),
    getAll: () => Object.fromEntries(values),
  };
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
