import path from 'node:path';
import type { UIMessage } from 'ai';
import type { Attributes } from '../../domain/attributes.ts';
import { newId } from '../../domain/ids.ts';
import type { Phase } from '../../domain/phases.ts';
import { fullName } from '../../domain/state-keys.ts';
import { editsOf, State } from '../../domain/state.ts';
import type { Json } from '../../domain/text.ts';
import type { Todo } from '../../domain/todo.ts';
import {
  type AgentDefinition,
  defineAgent,
  DefinitionError,
  type ToolCache,
  type ToolContext,
  type TurnSession,
} from '../definition/define.ts';
import { WrittenInstructions } from '../prompt/written-instructions.ts';
import { toolCache } from '../tools/tool-cache.ts';
import { toolTodos } from '../tools/tool-todos.ts';

/**
 * A session in this process only, for `run`, tests and scripts. For tools it behaves like a stored one: their writes to
 * state and todos are stored with their result or not at all.
 */
export interface MemorySession {
  readonly id: string;
  readonly userId: string;
  readonly metadata: Readonly<Record<string, Json>>;
  readonly attributes: Attributes;
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
  readonly cache: MemoryCache;
  /** Instruction files that its tools wrote. */
  readonly writtenInstructions: WrittenInstructions;
}

/**
 * A new session in phase chatting.
 * @throws {DefinitionError} naming the field of the agent that is invalid
 */
export function memorySession(options: {
  agent: AgentDefinition;
  workspaceRoot: string;
  userId?: string;
  /** As a session is opened with. */
  metadata?: Readonly<Record<string, Json>>;
  /** As the sign-in hook passes on. */
  attributes?: Attributes;
}): MemorySession {
  const agent = defineAgent(options.agent);
  if (agent.mcp?.length) throw new DefinitionError(`agent "${agent.id}": mcp: a session in memory has no MCP servers`);
  return {
    id: newId('ses'),
    userId: options.userId ?? 'local',
    metadata: options.metadata ?? {},
    attributes: options.attributes ?? {},
    agent,
    workspaceRoot: path.resolve(options.workspaceRoot),
    phase: 'chatting',
    projectId: null,
    messages: [],
    state: new Map(),
    todos: new Map(),
    cache: new Map(),
    writtenInstructions: new WrittenInstructions(),
  };
}

/** The context of one tool call, and `commit`, which applies what the tool wrote to the session. */
export function memoryToolContext(
  session: MemorySession,
  { tool, ...call }: { tool: string; toolCallId: string; signal: AbortSignal; progress: (data: Json) => void },
): { ctx: ToolContext; commit: () => void } {
  const state = new State(session.state);
  const listTodos = () => Promise.resolve([...session.todos.values()]);
  const todos = toolTodos(session.projectId === null ? undefined : listTodos);
  const ctx: ToolContext = {
    ...call,
    sessionId: session.id,
    userId: session.userId,
    session: sessionOfTurn(session),
    projectId: session.projectId,
    workspaceRoot: session.workspaceRoot,
    state,
    todos: todos.todos,
    cache: cacheOf(session.cache, tool),
    log: () => {},
  };
  const commit = () => {
    for (const { value, increment, ...key } of editsOf(state)) {
      const name = fullName(key);
      if (value !== undefined) session.state.set(name, value);
      else if (increment === undefined) session.state.delete(name);
      else session.state.set(name, Number(session.state.get(name) ?? 0) + increment);
    }
    for (const todo of todos.changes()) session.todos.set(todo.name, todo);
  };
  return { ctx, commit };
}

/** What prompts and tools see of a session. */
export function sessionOfTurn({ id: sessionId, userId, projectId, metadata, attributes }: MemorySession): TurnSession {
  return { sessionId, userId, projectId, metadata, attributes };
}

/** The cached results of a session in memory, by tool, scope and key. */
export type MemoryCache = Map<string, { value: Json; until: number }>;

/** One session has one user and one app, so its scopes are parts of the key. */
function cacheOf(entries: MemoryCache, tool: string): ToolCache {
  const id = (scope: string, key: string) => JSON.stringify([tool, scope, key]);
  return toolCache({
    read: async (scope, key) => {
      const entry = entries.get(id(scope, key));
      return entry && entry.until > Date.now() ? entry.value : undefined;
    },
    write: async (scope, key, value, ttlMs) => {
      for (const [old, { until }] of entries) if (until <= Date.now()) entries.delete(old);
      entries.set(id(scope, key), { value, until: Date.now() + ttlMs });
    },
  });
}
