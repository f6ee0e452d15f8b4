import { pathToFileURL } from 'node:url';
import { PerdureError } from '../domain/errors.ts';
import { type AgentDefinition, defineAgent, DefinitionError } from './define.ts';
import { resolvePackageImports } from './package-imports.ts';

/** The agents of this process. */
export interface AgentRegistry {
  /** @throws {PerdureError} `AgentNotConfigured`, naming the configured ones */
  get(id: string): AgentDefinition;
  /** The first one, used by sessions that name no agent. */
  readonly default: AgentDefinition;
  list(): readonly AgentDefinition[];
}

/**
 * The agents of a module whose default export is an array of `defineAgent` results (or one of them), or `fallback`
 * without a module.
 *
 * @param modulePath absolute path of the module, as PERDURE_AGENTS names it
 * @throws {DefinitionError} if the module cannot be loaded or has another default export
 */
export async function loadAgents(
  modulePath: string | undefined,
  fallback: readonly AgentDefinition[],
): Promise<AgentRegistry> {
  if (modulePath === undefined) return agentRegistry(fallback);
  const exported = await importDefault(modulePath);
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
  const [first] = agents;
  if (first === undefined) throw new DefinitionError('expected at least one agent');
  const byId = new Map<string, AgentDefinition>();
  for (const agent of agents.map((each) => defineAgent(each))) {
    if (byId.has(agent.id)) throw new DefinitionError(`agent "${agent.id}": id: used twice`);
    byId.set(agent.id, agent);
  }
  return { get: (id) => byId.get(id) ?? notConfigured(id, byId), default: first, list: () => [...byId.values()] };
}

async function importDefault(modulePath: string): Promise<unknown> {
  resolvePackageImports();
  try {
    const loaded = (await import(pathToFileURL(modulePath).href)) as { default?: unknown };
    return loaded.default;
  } catch (error) {
    throw new DefinitionError(`${modulePath} cannot be loaded: ${(error as Error).message}`, { cause: error });
  }
}

function notConfigured(id: string, known: ReadonlyMap<string, unknown>): never {
  throw new PerdureError(
    'AgentNotConfigured',
    `there is no agent "${id}"; configured: ${[...known.keys()].join(', ')}`,
  );
}
