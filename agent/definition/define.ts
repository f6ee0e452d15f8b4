import type { Tool } from 'ai';
import { z } from 'zod';
import type { Attributes } from '../../domain/attributes.ts';
import { MODEL_PATTERN } from '../../domain/model-ref.ts';
import { MCP_RULE, type PermissionRule } from '../../domain/permissions.ts';
import { PHASE_EVENTS, type PhaseEvent } from '../../domain/phases.ts';
import type { LastingScope } from '../../domain/state-keys.ts';
import type { State } from '../../domain/state.ts';
import type { Json } from '../../domain/text.ts';
import type { Todo } from '../../domain/todo.ts';
import { INITIATIVE_ROLES, withInitiativeTools } from '../initiatives/initiative-tools.ts';
import { withSkillTool } from '../skills/skill-tool.ts';
import { compactionSchema } from './compaction-schema.ts';
import { sharedMcpName } from './mcp-names.ts';
import { misplacedMcpRule } from './mcp-rules.ts';
import { type McpServerDefinition, mcpServerSchema, mcpToolName } from './mcp-server-definition.ts';
import { ruleSchema } from './rule-schema.ts';
import { type InputOf, type InputSchema, type SentInputOf, toolJsonSchema } from './tool-json-schema.ts';

/** A transition that a tool requests: committed before the tool runs (`start`), or with its outcome (`result`). */
export interface Raise {
  event: PhaseEvent;
  at: 'start' | 'result';
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
 * buffered and committed with the tool's result, or not at all; reads see them at once. If another writer changes a key between
 * its reading and the commit of what the tool wrote to it, the result is a tool error; `increment` always adds.
 */
export type ToolState = State;

/** Whose results a cache has: those of this session (the default), or in its app those of its user or of everybody. */
export type CacheScope = LastingScope;

/** A cache of the tool's own results with a time to live. Written at once, and in no log. */
export interface ToolCache {
  get(key: string, options?: { scope?: CacheScope }): Promise<Json | undefined>;
  /** @throws {TypeError} a key, size or time to live that is out of range; {StateError} a value that JSON cannot carry */
  set(key: string, value: Json, options: { ttlMs: number; scope?: CacheScope }): Promise<void>;
}

/** The session of a turn, as prompts and tools see it. */
export interface TurnSession {
  readonly sessionId: string;
  readonly userId: string;
  /** The session's project. */
  readonly projectId: string | null;
  /** As given when the session was opened. */
  readonly metadata: Readonly<Record<string, Json>>;
  /** What the sign-in hook passed on with the message that this turn answers. */
  readonly attributes: Attributes;
}

/** What a prompt can depend on. */
export interface PromptSession extends TurnSession {
  /** The day in UTC, `yyyy-mm-dd`. */
  readonly date: string;
}

/** What a tool can use while it runs. */
export interface ToolContext {
  /** Fires when the run is aborted: stop at once and throw. */
  readonly signal: AbortSignal;
  readonly toolCallId: string;
  readonly sessionId: string;
  readonly userId: string;
  readonly session: TurnSession;
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

/** A function of the parsed input. As a method, so that tools with different inputs fit into one list. */
type OfInput<Input, Result> = { of(input: Input): Result }['of'];

/** How long a call waits for the page by default, in milliseconds. */
export const PAGE_MS = 60 * 60_000;
/** The longest time that a call can wait for the page: 30 days. */
const MAX_PAGE_MS = 30 * 24 * 60 * 60_000;

/** A tool that a model can call. */
export interface ToolDefinition<
  Name extends string = string,
  Schema extends InputSchema = InputSchema,
  Output = unknown,
> {
  /** 1 to 64 of `[A-Za-z0-9_-]`. */
  name: Name;
  description: string;
  /** A schema of zod, one of the AI SDK's `jsonSchema`, or a JSON Schema; of an object. */
  input: Schema;
  /** True if running it twice with the same input is safe: it is then repeated after a crash. */
  repeatable?: boolean;
  /** True if the model needs what it has returned: its outputs are never pruned. */
  protected?: boolean;
  /** The transition that a call requests; null: none for this input. */
  raises?: Raise | OfInput<InputOf<Schema>, Raise | null>;
  /** The project of a call: `new` (with an event in `raises`) creates and locks one at the start, `required` needs one. */
  project?(input: InputOf<Schema>): 'new' | 'required' | null;
  /** What a call asks permission for, such as a path or a command, for the patterns of rules; default the empty text. */
  permission?(input: InputOf<Schema>): string;
  /**
   * Returns a JSON value; the message of a thrown error is shown to the model. Without it the page carries out the calls of the
   * tool (`addToolOutput` of the AI SDK), and the turn waits for their outputs.
   */
  execute?(input: InputOf<Schema>, ctx: ToolContext): Output | Promise<Output>;
  /** Of a tool without `execute`: the schema of what the page returns, as for `input`. */
  output?: InputSchema;
  /** Of a tool without `execute`: how long a call waits for the page, in milliseconds; default an hour. */
  timeout?: number;
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

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);
const count = z.int().positive();
const isFunction = z.custom<() => unknown>((value) => typeof value === 'function', 'expected a function');
const isPrompt = z.custom<(session: PromptSession) => string | Promise<string>>((value) => typeof value === 'function');
const raise = z.strictObject({ event: z.enum(PHASE_EVENTS), at: z.enum(['start', 'result']) });

const toolSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  input: z.custom<InputSchema>(isObject, 'expected a zod schema, one of jsonSchema() of the AI SDK, or a JSON Schema'),
  repeatable: z.boolean().optional(),
  protected: z.boolean().optional(),
  raises: z.union([raise, isFunction]).optional(),
  project: isFunction.optional(),
  permission: isFunction.optional(),
  execute: isFunction.optional(),
  output: z.custom<InputSchema>(isObject, 'expected a schema, as for input').optional(),
  timeout: count.max(MAX_PAGE_MS, `expected at most ${MAX_PAGE_MS} (30 days)`).optional(),
});

/** Fields of tools that the worker carries out, and of those that the page does. */
const ONLY_WITH_EXECUTE = ['repeatable', 'raises', 'project'] as const;
const ONLY_WITHOUT_EXECUTE = ['output', 'timeout'] as const;

/** Reserved fields that are not implemented yet. They are refused, so that nobody relies on them. */
const NOT_SUPPORTED: ReadonlySet<string> = new Set(['headless', 'inspectable']);

const agentSchema = z.strictObject({
  id: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  description: z.string().min(1),
  /** Who may use it: users, other agents (such as one that summarizes), or both. */
  mode: z.enum(['primary', 'subagent', 'all'], 'expected "primary", "subagent" or "all"'),
  /** Ids of the agents that it may call, with the tool `task`. */
  subagents: z.array(z.string().min(1)).optional(),
  prompt: z.union([z.string().min(1), isPrompt], 'expected a text, or a function of the session that returns one'),
  model: z.string().regex(MODEL_PATTERN, 'expected provider/model').optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_output_tokens: count.optional(),
  /** Timeout of one model call, in milliseconds. */
  timeout: count.optional(),
  /** False: no instruction files of the workspace in the prompt. */
  instructions: z.boolean().optional(),
  tools: z.array(toolSchema),
  /** The rules by which calls of the tools are allowed, denied or asked for; of two that are equally specific the later counts. */
  permissions: z.array(ruleSchema).optional(),
  /** Absolute paths of folders with skills: the prompt lists them, and the tool `skill` reads them. */
  skills: z.array(z.string().min(1)).optional(),
  /** What it does in the initiative that its session has joined: it has the tools of this role besides `tools`. */
  initiative: z.enum(INITIATIVE_ROLES, `expected one of ${INITIATIVE_ROLES.join(', ')}`).optional(),
  /** MCP servers whose tools the agent has besides `tools`. */
  mcp: z.array(mcpServerSchema).optional(),
  limits: z
    .strictObject({
      steps: count.optional(),
      tokens: count.optional(),
      wall_clock_ms: count.optional(),
      tool_output_bytes: count.optional(),
    })
    .optional(),
  compaction: compactionSchema.optional(),
});

type Tools = readonly ToolDefinition[];

/** The definition of an agent. */
export type AgentDefinition<AgentTools extends Tools = Tools> = Omit<z.infer<typeof agentSchema>, 'tools'> & {
  tools: AgentTools;
};

/**
 * The tools of an agent as a tool set of the AI SDK, for its types:
 * `InferUITools<ToolSetOf<typeof agent>>` types the tool parts of `useChat`'s messages.
 */
export type ToolSetOf<Agent extends AgentDefinition> = {
  [Each in Agent['tools'][number] as Each['name']]: Each extends ToolDefinition<string, infer Schema, infer Output>
    ? Tool<SentInputOf<Schema>, Output>
    : never;
};

/** A tool that the worker carries out. */
type ExecutedTool<Name extends string, Schema extends InputSchema, Output> = ToolDefinition<Name, Schema, Output> & {
  execute(input: InputOf<Schema>, ctx: ToolContext): Output | Promise<Output>;
};

/**
 * Checks a tool definition and returns it unchanged; `input` determines the type of `execute`.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineTool<const Name extends string, Schema extends InputSchema, Output>(
  definition: ExecutedTool<Name, Schema, Output>,
): ExecutedTool<Name, Schema, Output>;
export function defineTool<const Name extends string, Schema extends InputSchema, Output>(
  definition: ToolDefinition<Name, Schema, Output>,
): ToolDefinition<Name, Schema, Output>;
export function defineTool(definition: ToolDefinition): ToolDefinition {
  check(toolSchema, definition, 'tool', definition);
  requireTool(`tool "${definition.name}": `, definition);
  return definition;
}

/**
 * Checks the definition of an MCP server and returns it unchanged.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineMcpServer(definition: McpServerDefinition): McpServerDefinition {
  check(mcpServerSchema, definition, 'MCP server', definition);
  return definition;
}

/**
 * Checks an agent definition and returns it; the tools of an agent with skills have one that reads them, and those of an agent with
 * a role in initiatives have the role's.
 * @throws {DefinitionError} naming the field that is wrong
 */
export function defineAgent<const AgentTools extends Tools>(
  definition: AgentDefinition<AgentTools>,
): AgentDefinition<AgentTools> {
  check(agentSchema, definition, 'agent', definition);
  const tools = toolsOf(definition);
  definition.tools.forEach((tool, at) => requireTool(`agent "${definition.id}": tools.${at}.`, tool));
  const names = tools.map((tool) => tool.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new DefinitionError(`agent "${definition.id}": tools: the name "${twice}" is used twice`);
  const shared = sharedMcpName(names, definition.mcp ?? []);
  if (shared !== undefined) throw new DefinitionError(`agent "${definition.id}": ${shared}`);
  // The registry knows the tools of those that it can call, which its rules may name, too.
  const isAlone = (definition.subagents ?? []).length === 0;
  const misplaced = isAlone ? misplacedMcpRule({ ...definition, tools }) : undefined;
  if (misplaced !== undefined) throw new DefinitionError(`agent "${definition.id}": ${misplaced}`);
  return tools === definition.tools ? definition : { ...definition, tools };
}

function toolsOf<AgentTools extends Tools>(agent: AgentDefinition<AgentTools>): AgentTools {
  const tools = withSkills(agent);
  // Their types are those of the agent's own tools.
  return agent.initiative === undefined
    ? tools
    : (withInitiativeTools(tools, agent.initiative) as readonly ToolDefinition[] as AgentTools);
}

function withSkills<AgentTools extends Tools>({ id, tools, skills }: AgentDefinition<AgentTools>): AgentTools {
  if (skills === undefined || skills.length === 0) return tools;
  try {
    // Its types are those of the agent's own tools.
    return withSkillTool(tools, skills) as readonly ToolDefinition[] as AgentTools;
  } catch (error) {
    throw new DefinitionError(`agent "${id}": skills: ${(error as Error).message}`, { cause: error });
  }
}

/** @param field the beginning of a field's name @throws {DefinitionError} for what the schema of tools cannot tell */
function requireTool(field: string, tool: ToolDefinition): void {
  requireObject(`${field}input`, tool);
  const [odd, why] =
    tool.execute === undefined
      ? [ONLY_WITH_EXECUTE.find((name) => tool[name] !== undefined), 'expected only with execute']
      : [ONLY_WITHOUT_EXECUTE.find((name) => tool[name] !== undefined), 'expected only without execute'];
  if (odd !== undefined) throw new DefinitionError(`${field}${odd}: ${why}`);
  if (tool.output === undefined) return;
  try {
    toolJsonSchema({ input: tool.output });
  } catch (cause) {
    throw new DefinitionError(`${field}output: expected a valid schema (${(cause as Error).message})`, { cause });
  }
}

/** Whether some tool of an agent can ask for a transition between phases. */
export function usesPhases({ tools }: Pick<AgentDefinition, 'tools'>): boolean {
  return tools.some(({ raises }) => raises !== undefined);
}

/** The rules of an agent's manifest: those of its MCP servers, then its own. */
export function manifestRules({
  permissions = [],
  mcp = [],
}: Pick<AgentDefinition, 'permissions' | 'mcp'>): PermissionRule[] {
  const ofServers = mcp.flatMap(({ name, permissions: rules = [] }) =>
    rules.map((each, at) => ({
      ...{ rule_id: `${MCP_RULE}${name}:${at}`, ...each, permission: mcpToolName(name, each.permission) },
      source: 'manifest' as const,
    })),
  );
  const own = permissions.map((each, at) => ({ rule_id: `manifest-${at}`, ...each, source: 'manifest' as const }));
  return [...ofServers, ...own];
}

/** Providers accept only objects as the input of a tool. @throws {DefinitionError} for another schema */
function requireObject(field: string, tool: Pick<ToolDefinition, 'input'>): void {
  let type: unknown;
  try {
    type = toolJsonSchema(tool)['type'];
  } catch (cause) {
    const expected = tool.input instanceof z.ZodType ? 'a schema that JSON Schema can express' : 'a valid JSON Schema';
    throw new DefinitionError(`${field}: expected ${expected} (${(cause as Error).message})`, { cause });
  }
  if (type !== 'object') throw new DefinitionError(`${field}: expected the schema of an object`);
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
