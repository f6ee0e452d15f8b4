import { windowLimit } from '../agent/definition/compaction-schema.ts';
import { type AgentDefinition, manifestRules, usesPhases } from '../agent/definition/define.ts';
import { agentRegistry } from '../agent/loading/agent-registry.ts';
import type { Models } from '../agent/models/models.ts';
import { requireDefaultModels } from '../agent/models/require-default-models.ts';
import type { Catalog } from '../client/catalog.ts';

/** What a catalog is built from. */
export interface CatalogParts {
  /** The agents that the workers have; the first is the default. */
  agents: readonly AgentDefinition[];
  /** The models that the workers can call, from `createModels`. */
  models: Models;
  /** Absolute path of the workers' folder of workspaces. Unset: sessions cannot ask for a folder of their own choice. */
  workspaces?: string | undefined;
}

/**
 * The catalog for `createClient`. Host and workers are given the same agents and models, in one process or in several: the
 * host checks requests against them, the workers run them.
 * @throws {DefinitionError} naming an invalid agent, or a default model that cannot be resolved
 */
export function catalogOf({ agents, models, workspaces }: CatalogParts): Catalog {
  const registry = agentRegistry(agents);
  requireDefaultModels(registry.list(), models);
  return {
    agents: registry.list().map(({ id }) => id),
    defaultAgent: registry.default.id,
    descriptions: Object.fromEntries(registry.list().map(({ id, description }) => [id, description])),
    models: {
      find: (ref) => findModel(models, ref),
      list: () => models.list(),
      offered: () => models.offered(),
      ofAgent: (agent) => registry.get(agent).model ?? models.defaultRef,
      limitOf: (ref, id) => {
        const agent = registry.all().find((each) => each.id === id);
        return agent && findModel(models, ref) && windowLimit(models.resolve(ref), agent);
      },
    },
    usesPhases: (id) => registry.all().some((agent) => agent.id === id && usesPhases(agent)),
    rulesOf: (id) => {
      const agent = registry.all().find((each) => each.id === id);
      return agent ? manifestRules(agent) : [];
    },
    workspaces,
  };
}

function findModel(models: Models, ref: string): ReturnType<Catalog['models']['find']> {
  try {
    return models.info(ref);
  } catch {
    return undefined;
  }
}
