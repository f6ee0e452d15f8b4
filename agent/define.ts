import { z } from 'zod';
import { PHASE_EVENTS, type PhaseEvent } from '../domain/phases.ts';
import type { Json } from '../domain/text.ts';
import { toolJsonSchema } from './tool-schema.ts';

/** A transition that a tool asks for: `start` commits it before the tool runs, `result` with its outcome. */
export interface Raise {
  event: PhaseEvent;
  at: 'start' | 'result';
}

/** An item of a project's list of things to do. */
export interface Todo {
  name: string;
  done: boolean;
}

/** The todos of the session's project. Changes are buffered and committed with the tool's result, or not at all. */
export interface ToolTodos {
  list(): Promise<Todo[]>;
  /** Adds an open todo; one of that name that is there already is opened again. */
  add(name: string): void;
  /** @throws {Error} when there is no such todo */
  complete(name: string): Promise<void>;
}

/**
 * Scoped key-value state: no prefix is this session, `user:` this user, `app:` everybody, `temp:` this turn. Changes are
 * buffered and committed with the tool's result, or not at all; reads see them at once.
 */
export interface ToolState {
  get(key: string): Json | undefined;
  set(key: string, value: Json): void;
  has(key: string): boolean;
  delete(key: string): void;
  update(values: Record<string, Json>): void;
  getAll(): Record<string, Json>;
}

/** Results that are worth keeping for a while, shared by the sessions of a user. Written at once. */
export interface ToolCache {
  get(key: string): Promise<Json | undefined>;
  set(key: string, value: Json, options: { ttlMs: number }): Promise<void>;
}

/** What a tool may reach while it runs. */
export interface ToolContext {
  /** Fires when the run is aborted: stop at once, and throw. */
  readonly signal: AbortSignal;
  readonly toolCallId: string;
  readonly sessionId: string;
  readonly userId: string;
  /** The session's project; the one just made, where the tool's `start_build` made it. */
  readonly projectId: string | null;
  /** Absolute path of the folder that the session works in; it exists. */
  readonly workspaceRoot: string;
  readonly state: ToolState;
  readonly todos: ToolTodos;
  readonly cache: ToolCache;
  /** A line in the worker's log. Never put content in it. */
  log(message: string, fields?: Record<string, string | number | boolean>): void;
  /** Shows readers how far the tool is; not stored. */
  progress(data: Json): void;
}

/** Something a model can call. `Input` is what the zod schema gives. */
export interface ToolDefinition<Input = unknown> {
  /** 1 to 64 of `[A-Za-z0-9_-]`. */
  name: string;
  description: string;
  input: z.ZodType<Input>;
  /** The pattern that permission rules are matched against, e.g. a path. */
  permission?(input: Input): string;
  /** True when running it twice with the same input does no harm: then it is repeated after a crash. */
  repeatable?: boolean;
  /** True when pruning spares its outputs. */
  protected?: boolean;
  /** The transition that a call asks for; null when this input asks for none. */
  raises?: Raise | ((input: Input) => Raise | null);
  /** Which project a call is for: `new` makes and locks one as it starts, `required` needs a locked one. */
  project?(input: Input): 'new' | 'required' | null;
  /** Returns anything JSON carries; what it throws becomes an error that the model sees. */
  execute(input: Input, ctx: ToolContext): unknown;
}

/** What keeps one turn from running away. Tokens do not count cache reads. */
export interface Limits {
  steps: number;
  tokens: number;
  wall_clock_ms: number;
  tool_output_bytes: number;
}

export const DEFAULT_LIMITS: Limits = Object.freeze({
  steps: 50,
  tokens: 1_000_000,
  wall_clock_ms: 30 * 60_000,
  tool_output_bytes: 32 * 1024,
});

/** A definition of an agent or tool that cannot be used; the message names the field. */
export class DefinitionError extends Error {
  readonly code = 'DefinitionError';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DefinitionError';
  }
}

const count = z.int().positive();
const share = z.number().positive().max(1);
const isFunction = z.custom<() => unknown>((value) => typeof value === 'function', 'expected a function');
const raise = z.strictObject({ event: z.enum(PHASE_EVENTS), at: z.enum(['start', 'result']) });

const toolSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  input: z.custom<z.ZodType>((value) => value instanceof z.ZodType, 'expected a zod schema'),
  permission: isFunction.optional(),
  repeatable: z.boolean().optional(),
  protected: z.boolean().optional(),
  raises: z.union([raise, isFunction]).optional(),
  project: isFunction.optional(),
  execute: isFunction,
});

const permissionRule = z.strictObject({
  permission: z.string().min(1),
  pattern: z.string().min(1),
  action: z.enum(['allow', 'deny', 'ask']),
  /** True when neither session nor project rules may override it. */
  pin: z.boolean().optional(),
});

const compaction = z.strictObject({
  auto: z.boolean().optional(),
  compact_at: share.optional(),
  prune_at: share.optional(),
  reserve_tokens: count.optional(),
  tail_turns: z.int().nonnegative().optional(),
  tail_budget_pct: share.optional(),
  retry_on_transient: z.int().nonnegative().optional(),
  summarizer_timeout: count.optional(),
  smart_recovery: z
    .strictObject({
      prune_tool_outputs: z.boolean().optional(),
      chunked_summarize: z.boolean().optional(),
      drop_middle: z.boolean().optional(),
    })
    .optional(),
});

const agentSchema = z.strictObject({
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  mode: z.enum(['primary', 'subagent', 'all']),
  prompt: z.string().min(1),
  model: z
    .string()
    .regex(/^[^/\s]+\/\S+$/, 'expected provider/model')
    .optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_output_tokens: count.optional(),
  /** Longest time that one model call may take, in milliseconds. */
  timeout: count.optional(),
  tools: z.array(toolSchema),
  permissions: z.array(permissionRule).optional(),
  limits: z
    .strictObject({
      steps: count.optional(),
      tokens: count.optional(),
      wall_clock_ms: count.optional(),
      tool_output_bytes: count.optional(),
    })
    .optional(),
  compaction: compaction.optional(),
  /** Whether hosts may show its prompt and tools. */
  inspectable: z.boolean().optional(),
});

/** An agent, as data. */
export type AgentDefinition = Omit<z.infer<typeof agentSchema>, 'tools'> & { tools: readonly ToolDefinition[] };

/**
 * A tool, with its `execute` typed by its `input`. Returns the definition as it is.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineTool<Input>(definition: ToolDefinition<Input>): ToolDefinition {
  check(toolSchema, definition, 'tool', definition);
  const tool = definition as ToolDefinition;
  if (toolJsonSchema(tool)['type'] !== 'object') {
    throw new DefinitionError(`tool "${tool.name}": input: expected a schema of an object, as models need one`);
  }
  return tool;
}

/**
 * An agent. Returns the definition as it is.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineAgent(definition: AgentDefinition): AgentDefinition {
  check(agentSchema, definition, 'agent', definition);
  const names = definition.tools.map((tool) => tool.name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new DefinitionError(`agent "${definition.id}": tools: "${twice}" is there twice`);
  return definition;
}

/** The agent's limits, with the defaults where it sets none. */
export function limitsOf(agent: AgentDefinition): Limits {
  const given = Object.entries(agent.limits ?? {}).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_LIMITS, ...Object.fromEntries(given) };
}

function check(schema: z.ZodType, value: unknown, kind: string, named: { id?: unknown; name?: unknown }): void {
  const parsed = schema.safeParse(value);
  if (parsed.success) return;
  const name = named?.id ?? named?.name;
  const label = typeof name === 'string' ? `${kind} "${name}"` : kind;
  const problems = parsed.error.issues.map((issue) => [issue.path.join('.'), issue.message].filter(Boolean).join(': '));
  throw new DefinitionError(`${label}: ${problems.join('; ')}`);
}
