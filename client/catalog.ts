import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';
import { userFolder } from '../domain/workspaces.ts';

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
 * The absolute path of a workspace that a user names, relative to the user's own folder of workspaces or absolute in it.
 * @throws {PerdureError} `BadRequest` for any other place
 */
export function workspaceOf(
  catalog: Catalog | undefined,
  userId: string,
  asked: string | null | undefined,
): string | null {
  if (asked === null || asked === undefined) return null;
  const root = catalog?.workspaces === undefined ? undefined : userFolder(catalog.workspaces, userId);
  const place = root === undefined ? undefined : path.resolve(root, asked);
  // What is in a .git is git's: the tools keep out of it, and so does the prompt.
  const odd = asked.includes('\0') || asked.split(/[/\\]/).includes('.git');
  if (root === undefined || place === undefined || odd || !place.startsWith(root + path.sep)) {
    throw new PerdureError('BadRequest', 'workspace_root: expected a folder below your folder of workspaces');
  }
  return place;
}
