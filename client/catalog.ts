import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';
import { InvalidInput } from '../wire/input.ts';
import { byteLength } from '../domain/text.ts';
import { userFolder } from '../workspaces/paths.ts';
import { requireWorkspace } from '../workspaces/folder.ts';

/** The agents, models and workspaces of this installation, as plain data. */
export interface Catalog {
  agents: readonly string[];
  defaultAgent: string;
  models: { has(ref: string): boolean; list(): readonly string[] };
  /** Absolute path of the root folder of all workspaces. */
  workspaces: string;
}

/**
 * @throws {PerdureError} `AgentNotConfigured`, naming the configured ones; `BadRequest` without an agent and a default
 */
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

/** @throws {PerdureError} `ModelNotConfigured`, naming the configured ones */
export function modelOf(catalog: Catalog | undefined, asked: string | null | undefined): string | null {
  if (asked === null || asked === undefined) return null;
  if (catalog && !catalog.models.has(asked)) {
    const configured = catalog.models.list().join(', ');
    throw new PerdureError('ModelNotConfigured', `the model "${asked}" is not configured; configured: ${configured}`);
  }
  return asked;
}

/** The maximum length of a file name, in bytes. */
const MAX_NAME_BYTES = 255;

/**
 * The absolute path of a requested workspace, given as an absolute path or relative to the user's folder of workspaces.
 * @throws {PerdureError} `BadRequest` for a path outside the user's folder, or through a link
 */
export function workspaceOf(
  catalog: Catalog | undefined,
  userId: string,
  asked: string | null | undefined,
): string | null {
  if (asked === null || asked === undefined) return null;
  if (catalog?.workspaces === undefined) throw badRoot('nothing: no folder of workspaces is configured');
  const root = userFolder(catalog.workspaces, userId);
  const place = path.resolve(root, asked);
  if (!isPath(asked) || !place.startsWith(root + path.sep)) throw badRoot('a folder below your folder of workspaces');
  // Workers check the path again before every step and tool call, on their own disk.
  try {
    requireWorkspace(catalog.workspaces, place);
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

function badRoot(expected: string): InvalidInput {
  return new InvalidInput([{ field: 'workspace_root', expected }]);
}
