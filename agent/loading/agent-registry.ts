import { PerdureError } from '../../domain/errors.ts';
import { TASK_TOOL } from '../../domain/task-tool.ts';
import { type AgentDefinition, defineAgent, DefinitionError } from '../definition/define.ts';
import { misplacedMcpRule } from '../definition/mcp-rules.ts';
import { withTaskTool } from '../tools/task-tool.ts';
import { importDefault } from './import-default.ts';
import { reloading, type ReloadReport } from './reloading.ts';

/** The agents of this process. */
export interface AgentRegistry {
  /** @throws {PerdureError} `AgentNotConfigured`, naming the configured ones */
  get(id: string): AgentDefinition;
  /** The first one of the list, used by sessions that name no agent. */
  readonly default: AgentDefinition;
  /** Those that users can open sessions with. */
  list(): readonly AgentDefinition[];
  /** With subagents. */
  all(): readonly AgentDefinition[];
}

/**
 * The agents of a module whose default export is an array of `defineAgent` results (or one of them), or `fallback`
 * without a module.
 *
 * @param modulePath absolute path of the module, as PERDURE_AGENTS names it
 * @param options.check throws for agents that cannot be used
 * @param options.reload loads the module again when it changes, and is told about it; the last good agents are kept
 * @throws {DefinitionError} if the module cannot be loaded or has another default export
 */
export async function loadAgents(
  modulePath: string | undefined,
  fallback: readonly AgentDefinition[],
  { check, reload }: { check?: (agents: readonly AgentDefinition[]) => void; reload?: ReloadReport | undefined } = {},
): Promise<AgentRegistry> {
  const make = (exported: unknown) => {
    const registry = modulePath === undefined ? agentRegistry(fallback) : exportedAgents(modulePath, exported);
    check?.(registry.all());
    return registry;
  };
  if (modulePath === undefined) return make(undefined);
  if (reload === undefined) return make(await importDefault(modulePath));
  const current = await reloading(modulePath, make, reload);
  return {
    get: (id) => current().get(id),
    get default() {
      return current().default;
    },
    list: () => current().list(),
    all: () => current().all(),
  };
}

function exportedAgents(modulePath: string, exported: unknown): AgentRegistry {
  if (typeof exported !== 'object' || exported === null) {
    throw new DefinitionError(`${modulePath}: expected an array of defineAgent(…) results as the default export`);
  }
  try {
    return agentRegistry((Array.isArray(exported) ? exported : [exported]) as AgentDefinition[]);
  } catch (error) {
    throw new DefinitionError(`${modulePath}: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * A registry of the given agents.
 * @throws {DefinitionError} for no agents, an invalid one or a duplicate id
 */
export function agentRegistry(agents: readonly AgentDefinition[]): AgentRegistry {
  const byId = new Map<string, AgentDefinition>();
  for (const agent of agents.map((each) => defineAgent(each))) {
    if (byId.has(agent.id)) throw new DefinitionError(`agent "${agent.id}": id: used twice`);
    byId.set(agent.id, agent);
  }
  for (const { id, compaction } of byId.values()) {
    const { summarizer } = compaction ?? {};
    if (summarizer !== undefined && typeof byId.get(summarizer)?.prompt !== 'string')
      throw new DefinitionError(
        `agent "${id}": compaction.summarizer: expected the id of an agent whose prompt is a text`,
      );
  }
  for (const agent of byId.values()) if (agent.subagents?.length) byId.set(agent.id, withSubagents(agent, byId));
  for (const agent of byId.values()) if (agent.subagents?.length) requireRules(agent, callable(agent, byId));
  const listed = [...byId.values()].filter(({ mode }) => mode !== 'subagent');
  const [first] = listed;
  if (first === undefined) throw new DefinitionError('expected at least one agent of mode "primary" or "all"');
  const all = [...byId.values()];
  return { get: (id) => byId.get(id) ?? notConfigured(id, listed), default: first, list: () => listed, all: () => all };
}

function withSubagents(agent: AgentDefinition, byId: ReadonlyMap<string, AgentDefinition>): AgentDefinition {
  const subagents = (agent.subagents ?? []).map((id, at) => {
    const field = `agent "${agent.id}": subagents.${at}`;
    const found = byId.get(id);
    if (found === undefined) throw new DefinitionError(`${field}: there is no agent "${id}"`);
    if (found.mode === 'primary')
      throw new DefinitionError(`${field}: expected an agent of mode "subagent" or "all", and "${id}" is "primary"`);
    if (agent.subagents?.indexOf(id) !== at) throw new DefinitionError(`${field}: "${id}" is listed twice`);
    return found;
  });
  const extended = withTaskTool(agent, subagents);
  if (extended.tools.filter(({ name }) => name === TASK_TOOL).length > 1)
    throw new DefinitionError(`agent "${agent.id}": tools: the name "${TASK_TOOL}" is that of the tool for subagents`);
  return extended;
}

/** @throws {DefinitionError} a rule names a tool that neither the agent nor those have that it can call */
function requireRules(agent: AgentDefinition, called: readonly AgentDefinition[]): void {
  const tools = called.flatMap((each) => each.tools);
  const mcp = called.flatMap((each) => each.mcp ?? []);
  const misplaced = misplacedMcpRule({ ...agent, tools, mcp });
  if (misplaced !== undefined) throw new DefinitionError(`agent "${agent.id}": ${misplaced}`);
}

/** An agent and all that it can call, directly or through others. */
function callable(agent: AgentDefinition, byId: ReadonlyMap<string, AgentDefinition>): AgentDefinition[] {
  const found = new Set([agent]);
  for (const { subagents = [] } of found) {
    for (const id of subagents) {
      const called = byId.get(id);
      if (called !== undefined) found.add(called);
    }
  }
  return [...found];
}

function notConfigured(id: string, known: readonly AgentDefinition[]): never {
  throw new PerdureError(
    'AgentNotConfigured',
    `there is no agent "${id}"; configured: ${known.map((agent) => agent.id).join(', ')}`,
  );
}
