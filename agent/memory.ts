import path from 'node:path';
import type { UIMessage } from 'ai';
import { newId } from '../domain/ids.ts';
import type { Phase } from '../domain/phases.ts';
import { cleanJson, type Json } from '../domain/text.ts';
import { type AgentDefinition, defineAgent, type Todo, type ToolCache, type ToolContext } from './define.ts';
import { fullName, toolState } from './tool-state.ts';
import { toolTodos } from './tool-todos.ts';

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
  /** By full name, such as `user:theme`. */
  readonly state: Map<string, Json>;
  readonly todos: Map<string, Todo>;
  readonly cache: ToolCache;
}

/**
 * A new session in phase chatting.
 * @throws {DefinitionError} naming the field of the agent that is invalid
 */
export function memorySession(options: {
  agent: AgentDefinition;
  workspaceRoot: string;
  userId?: string;
}): MemorySession {
  return {
    id: newId('ses'),
    userId: options.userId ?? 'local',
    agent: defineAgent(options.agent),
    workspaceRoot: path.resolve(options.workspaceRoot),
    phase: 'chatting',
    projectId: null,
    messages: [],
    state: new Map(),
    todos: new Map(),
    cache: memoryCache(),
  };
}

/** The context of one tool call, and `commit`, which applies what the tool wrote to the session. */
export function memoryToolContext(
  session: MemorySession,
  call: { toolCallId: string; signal: AbortSignal; progress: (data: Json) => void },
): { ctx: ToolContext; commit: () => void } {
  const state = toolState(new Map(session.state));
  const listTodos = () => Promise.resolve([...session.todos.values()]);
  const todos = toolTodos(session.projectId === null ? undefined : listTodos);
  const ctx: ToolContext = {
    ...call,
    sessionId: session.id,
    userId: session.userId,
    projectId: session.projectId,
    workspaceRoot: session.workspaceRoot,
    state: state.state,
    todos: todos.todos,
    cache: session.cache,
    log: () => {},
  };
  const commit = () => {
    for (const { value, ...key } of state.edits()) {
      if (value === undefined) session.state.delete(fullName(key));
      else session.state.set(fullName(key), value);
    }
    for (const todo of todos.changes()) session.todos.set(todo.name, todo);
  };
  return { ctx, commit };
}

function memoryCache(): ToolCache {
  const entries = new Map<string, { value: Json; until: number }>();
  return {
    get: (key) => {
      const entry = entries.get(key);
      return Promise.resolve(entry && entry.until > Date.now() ? entry.value : undefined);
    },
    set: (key, value, { ttlMs }) => {
      for (const [old, { until }] of entries) if (until <= Date.now()) entries.delete(old);
      entries.set(key, { value: cleanJson(value), until: Date.now() + ttlMs });
      return Promise.resolve();
    },
  };
}
