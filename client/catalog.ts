import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';

/** What this installation has, as plain data: the client knows neither agents nor models themselves. */
export interface Catalog {
  agents: readonly string[];
  defaultAgent: string;
  models: { has(ref: string): boolean; list(): readonly string[] };
  /** Absolute path of the folder below which workspaces lie. */
  workspaces: string;
}

/** @throws {PerdureError} `AgentNotConfigured`, naming those that are; `BadRequest` where nothing says which */
export function agentOf(catalog: Catalog | undefined, asked: string | undefined): string {
  const agent = asked ?? catalog?.defaultAgent;
  if (agent === undefined) throw new PerdureError('BadRequest', 'agent: expected the id of an agent');
  if (catalog && !catalog.agents.includes(agent)) {
    throw new PerdureError(
      'AgentNotConfigured',
      `there is no agent "${agent}"; configured: ${catalog.agents.join(', ')}`,
    );
  }
  return agent;
}

/** @throws {PerdureError} `ModelNotConfigured`, naming those that are */
export function modelOf(catalog: Catalog | undefined, asked: string | null | undefined): string | null {
  if (asked === null || asked === undefined) return null;
  if (catalog && !catalog.models.has(asked)) {
    const configured = catalog.models.list().join(', ');
    throw new PerdureError('ModelNotConfigured', `the model "${asked}" is not configured; configured: ${configured}`);
  }
  return asked;
}

/**
 * The absolute path of a workspace that a caller names, relative to the folder of all workspaces or absolute below it.
 * @throws {PerdureError} `BadRequest` for any other place
 */
export function workspaceOf(catalog: Catalog | undefined, asked: string | null | undefined): string | null {
  if (asked === null || asked === undefined) return null;
  const root = catalog?.workspaces;
  const place = root === undefined ? undefined : path.resolve(root, asked);
  if (root === undefined || place === undefined || asked.includes('\0') || !place.startsWith(root + path.sep)) {
    throw new PerdureError('BadRequest', 'workspace_root: expected a folder below the folder of workspaces');
  }
  return place;
}
