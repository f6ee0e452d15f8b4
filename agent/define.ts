import { z } from 'zod';
import { PHASE_EVENTS, type PhaseEvent } from '../domain/phases.ts';
import type { Json } from '../domain/text.ts';
import { toolJsonSchema } from './tool-schema.ts';

/** A transition that a tool requests: committed before the tool runs (`start`), or with its outcome (`result`). */
export interface Raise {
  event: PhaseEvent;
  at: 'start' | 'result';
}

/** A todo of a project. */
export interface Todo {
  name: string;
  done: boolean;
}

/** The todos of the session's project. Changes are buffered and committed with the tool's result, or not at all. */
export interface ToolTodos {
  list(): Promise<Todo[]>;
  /** Adds an open todo, or reopens the one with this name. */
  add(name: string): void;
  /** @throws {Error} if the todo does not exist */
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

/** A cache of the session with a time to live. Written at once. */
export interface ToolCache {
  get(key: string): Promise<Json | undefined>;
  set(key: string, value: Json, options: { ttlMs: number }): Promise<void>;
}

/** What a tool can use while it runs. */
export interface ToolContext {
  /** Fires when the run is aborted: stop at once and throw. */
  readonly signal: AbortSignal;
  readonly toolCallId: string;
  readonly sessionId: string;
  readonly userId: string;
  /** The session's project, or the one that this call has created. */
  readonly projectId: string | null;
  /** Absolute path of the session's workspace; the folder exists. */
  readonly workspaceRoot: string;
  readonly state: ToolState;
  readonly todos: ToolTodos;
  readonly cache: ToolCache;
  /** Writes a line to the worker's log. Never log content. */
  log(message: string, fields?: Record<string, string | number | boolean>): void;
  /** Reports progress to readers; not stored. */
  progress(data: Json): void;
}

/** A tool that a model can call. `Input` is the output type of the zod schema. */
export interface ToolDefinition<Input = unknown> {
  /** 1 to 64 of `[A-Za-z0-9_-]`. */
  name: string;
  description: string;
  input: z.ZodType<Input>;
  /** True if running it twice with the same input is safe: it is then repeated after a crash. */
  repeatable?: boolean;
  /** The transition that a call requests; null: none for this input. */
  raises?: Raise | ((input: Input) => Raise | null);
  /** The project of a call: `new` (with an event in `raises`) creates and locks one at the start, `required` needs one. */
  project?(input: Input): 'new' | 'required' | null;
  /** Returns a JSON value; the message of a thrown error is shown to the model. */
  execute(input: Input, ctx: ToolContext): unknown;
}

/** Limits of one turn. Tokens do not count cache reads. */
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

/** An invalid definition of an agent or tool; the message names the field. */
export class DefinitionError extends Error {
  readonly code = 'DefinitionError';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DefinitionError';
  }
}

const count = z.int().positive();
const isFunction = z.custom<() => unknown>((value) => typeof value === 'function', 'expected a function');
const raise = z.strictObject({ event: z.enum(PHASE_EVENTS), at: z.enum(['start', 'result']) });

const toolSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  input: z.custom<z.ZodType>((value) => value instanceof z.ZodType, 'expected a zod schema'),
  repeatable: z.boolean().optional(),
  raises: z.union([raise, isFunction]).optional(),
  project: isFunction.optional(),
  execute: isFunction,
});

/** Reserved fields that are not implemented yet. They are refused, so that nobody relies on them. */
const NOT_SUPPORTED: ReadonlySet<string> = new Set([
  'compaction',
  'headless',
  'initiative',
  'inspectable',
  'instructions',
  'mcp',
  'permission',
  'permissions',
  'protected',
  'subagents',
]);

const agentSchema = z.strictObject({
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  mode: z.literal('primary', 'expected "primary": subagents are not supported yet'),
  prompt: z.string().min(1),
  model: z
    .string()
    .regex(/^[^/\s]+\/\S+$/, 'expected provider/model')
    .optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_output_tokens: count.optional(),
  /** Timeout of one model call, in milliseconds. */
  timeout: count.optional(),
  tools: z.array(toolSchema),
  limits: z
    .strictObject({
      steps: count.optional(),
      tokens: count.optional(),
      wall_clock_ms: count.optional(),
      tool_output_bytes: count.optional(),
    })
    .optional(),
});

/** The definition of an agent. */
export type AgentDefinition = Omit<z.infer<typeof agentSchema>, 'tools'> & { tools: readonly ToolDefinition[] };

/**
 * Checks a tool definition and returns it unchanged; `input` determines the type of `execute`.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineTool<Input>(definition: ToolDefinition<Input>): ToolDefinition {
  check(toolSchema, definition, 'tool', definition);
  const tool = definition as ToolDefinition;
  if (toolJsonSchema(tool)['type'] !== 'object') {
    throw new DefinitionError(`tool "${tool.name}": input: expected the schema of an object`);
  }
  return tool;
}

/**
 * Checks an agent definition and returns it unchanged.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineAgent(definition: AgentDefinition): AgentDefinition {
  check(agentSchema, definition, 'agent', definition);
  const names = definition.tools.map((tool) => tool.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new DefinitionError(`agent "${definition.id}": tools: the name "${twice}" is used twice`);
  return definition;
}

/** The agent's limits, with defaults for unset ones. */
export function limitsOf(agent: AgentDefinition): Limits {
  const given = Object.entries(agent.limits ?? {}).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_LIMITS, ...Object.fromEntries(given) };
}

function check(schema: z.ZodType, value: unknown, kind: string, named: { id?: unknown; name?: unknown }): void {
  const parsed = schema.safeParse(value);
  if (parsed.success) return;
  const name = named?.id ?? named?.name;
  const label = typeof name === 'string' ? `${kind} "${name}"` : kind;
  const problems = parsed.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) =>
          problemAt([...issue.path, key], NOT_SUPPORTED.has(key) ? 'not supported yet' : 'no such field'),
        )
      : problemAt(issue.path, issue.message),
  );
  throw new DefinitionError(`${label}: ${problems.join('; ')}`);
}

/** A problem with its path: `tools.0.input: expected a zod schema`. */
function problemAt(path: readonly PropertyKey[], message: string): string {
  return path.length === 0 ? message : `${path.join('.')}: ${message}`;
}
