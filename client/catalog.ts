import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';
import type { ModelInfo } from '../domain/model-info.ts';
import type { PermissionRule } from '../domain/permissions.ts';
import { byteLength } from '../domain/text.ts';
import { InvalidInputError } from '../wire/input.ts';
import { SNAPSHOTS_FOLDER, userFolder } from '../workspaces/paths.ts';
import { requireWorkspace } from '../workspaces/require-workspace.ts';

/** The agents, models and workspaces of this installation, as plain data. */
export interface Catalog {
  agents: readonly string[];
  defaultAgent: string;
  /** What agents are for, by id; for MCP clients. */
  descriptions?: Readonly<Record<string, string>>;
  models: {
    /** Undefined: it is not configured. */
    find(ref: string): ModelInfo | undefined;
    /** What is configured, for messages: `provider/model`, or `provider/*` for any model of a provider. */
    list(): readonly string[];
    /** The models to choose from. */
    offered(): readonly ModelInfo[];
    /** The model of an agent's sessions that have no other, `provider/model`. */
    ofAgent(agent: string): string;
    /**
     * Tokens at which an agent's conversation is compacted before a step with a model, or that the model takes at most;
     * undefined: one of them is not configured. Unset: it is not known here.
     */
    limitOf?(ref: string, agent: string): number | undefined;
  };
  /** Whether tools of an agent move its sessions from phase to phase. Unset: it is not known here. */
  usesPhases?(agent: string): boolean;
  /** The permission rules of an agent's definition; none for an unknown agent. Unset: they are not known here. */
  rulesOf?(agent: string): readonly PermissionRule[];
  /** Absolute path of the root folder of all workspaces. Unset: sessions cannot name a folder. */
  workspaces?: string | undefined;
}

/**
 * @throws {PerdureError} `AgentNotConfigured`, naming the configured ones; `BadRequest` without an agent and a default
 */
export function agentOf(catalog: Catalog | undefined, asked: string | undefined): string {
  const agent = asked ?? catalog?.defaultAgent;
  if (agent === undefined)
    throw new PerdureError(
      'BadRequest',
      'agent: expected the id of an agent, because there is no default one without a catalog',
    );
  if (catalog && !catalog.agents.includes(agent)) {
    throw new PerdureError(
      'AgentNotConfigured',
      `there is no agent "${agent}"; configured: ${catalog.agents.join(', ')}`,
    );
  }
  return agent;
}

/**
 * @param field where the caller has named the model
 * @throws {InvalidInputError} `ModelNotConfigured`, naming the field and the configured ones
 */
export function modelOf(
  catalog: Catalog | undefined,
  asked: string | null | undefined,
  field = 'model',
): string | null {
  if (asked === null || asked === undefined) return null;
  if (catalog && catalog.models.find(asked) === undefined) {
    const expected = `a configured model (${catalog.models.list().join(', ')}), not "${asked}"`;
    throw new InvalidInputError([{ field, expected }], 'ModelNotConfigured');
  }
  return asked;
}

/** An agent that users can open sessions with. */
export interface OfferedAgent {
  id: string;
  /** What it is for. */
  description: string | undefined;
  /** Whether its tools move a session from phase to phase; undefined: unknown. */
  uses_phases: boolean | undefined;
}

/** Nothing without a catalog. */
export function offeredAgents(catalog: Catalog | undefined): OfferedAgent[] {
  return (catalog?.agents ?? []).map((id) => ({
    id,
    description: catalog?.descriptions?.[id],
    uses_phases: catalog?.usesPhases?.(id),
  }));
}

/** The models to choose from, and the one that each agent's sessions begin with. */
export interface OfferedModels {
  /** Of the default agent; null: unknown. */
  default: string | null;
  agents: Record<string, string>;
  items: ModelInfo[];
}

/** Nothing without a catalog. */
export function offeredModels(catalog: Catalog | undefined): OfferedModels {
  if (catalog === undefined) return { default: null, agents: {}, items: [] };
  const { models, agents, defaultAgent } = catalog;
  const items = [...models.offered()];
  // A default need not be among the models that are offered, such as one of a server with models of its own.
  const defaults = agents.map((agent) => [agent, models.ofAgent(agent)] as const);
  for (const [, ref] of defaults) {
    const info = items.some(({ model }) => model === ref) ? undefined : models.find(ref);
    if (info) items.unshift(info);
  }
  return { default: models.ofAgent(defaultAgent), agents: Object.fromEntries(defaults), items };
}

/** How the agents of a host and of the workers differ: sessions with such an agent fail, or cannot be opened here. */
export interface AgentDifference {
  /** Agents of this host that some worker does not have. */
  missing_in_workers: string[];
  /** Agents of some worker that this host does not have. */
  missing_here: string[];
}

/** @param workers the agents of each worker @returns undefined if there is no difference, or nothing to compare */
export function agentDifference(
  catalog: Catalog | undefined,
  workers: readonly (readonly string[])[],
): AgentDifference | undefined {
  if (catalog === undefined || workers.length === 0) return undefined;
  const missing_in_workers = catalog.agents.filter((id) => workers.some((agents) => !agents.includes(id)));
  const missing_here = [...new Set(workers.flat())].filter((id) => !catalog.agents.includes(id));
  return missing_in_workers.length + missing_here.length > 0 ? { missing_in_workers, missing_here } : undefined;
}

/** The maximum length of a file name, in bytes. */
const MAX_NAME_BYTES = 255;

/**
 * The absolute path of a requested workspace, given as an absolute path or relative to the user's folder of workspaces.
 * @throws {PerdureError} `BadRequest` for a path outside the user's folder or in that of snapshots, or through a link
 */
export function requestedWorkspace(
  workspaces: string | undefined,
  userId: string,
  asked: string | null | undefined,
): string | null {
  if (asked === null || asked === undefined) return null;
  if (workspaces === undefined) throw badRoot('nothing: no folder of workspaces is configured');
  const root = userFolder(workspaces, userId);
  const place = path.resolve(root, asked);
  const isOfSnapshots = path.relative(root, place).split(path.sep)[0]?.toLowerCase() === SNAPSHOTS_FOLDER;
  if (!isPath(asked) || !place.startsWith(root + path.sep) || isOfSnapshots) {
    throw badRoot('a folder below your folder of workspaces');
  }
  // Workers check the path again before every step and tool call, on their own disk.
  try {
    requireWorkspace(workspaces, place);
  } catch {
    throw badRoot('a folder below your folder of workspaces, with only folders in its path');
  }
  return place;
}

/** True if Postgres and file systems store the path unchanged, and it is not inside a `.git` folder. */
function isPath(text: string): boolean {
  const names = text.split(/[/\\]/);
  const areNames = names.every((name) => byteLength(name) <= MAX_NAME_BYTES && name.toLowerCase() !== '.git');
  return text.isWellFormed() && !text.includes('\0') && areNames;
}

function badRoot(expected: string): InvalidInputError {
  return new InvalidInputError([{ field: 'workspace_root', expected }]);
}
