import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';
import { InvalidInput } from '../wire/input.ts';
import { byteLength } from '../domain/text.ts';
import { userFolder } from '../workspaces/paths.ts';
import { requireWorkspace } from '../workspaces/folder.ts';

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

/** What file systems take of one name, in bytes. */
const MAX_NAME_BYTES = 255;

/**
 * The absolute path of a workspace that a user names, relative to the user's own folder of workspaces or absolute in it.
 * @throws {PerdureError} `BadRequest` for any other place, and for one behind a link
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
  // The disk is the workers': they judge again, before every step and tool call.
  try {
    requireWorkspace(catalog.workspaces, place);
  } catch {
    throw badRoot('a folder below your folder of workspaces, with nothing but folders on the way');
  }
  return place;
}

/** Text that is kept as it is, of names that a file system takes. What is in a .git is git's, so nobody works there. */
function isPath(text: string): boolean {
  const names = text.split(/[/\\]/);
  const areNames = names.every((name) => byteLength(name) <= MAX_NAME_BYTES && name.toLowerCase() !== '.git');
  return text.isWellFormed() && !text.includes('\0') && areNames;
}

function badRoot(expected: string): InvalidInput {
  return new InvalidInput([{ field: 'workspace_root', expected }]);
}
