import { lstatSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';

/**
 * Checks that a workspace is below the folder of all workspaces and that its path contains no symbolic link, which a tool
 * of another session could have created. Synchronous, because a few stats are quicker than the thread pool. Missing folders
 * are allowed; `make` creates them.
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export function requireWorkspace(workspaces: string, root: string, { make = false } = {}): void {
  const relative = path.relative(workspaces, root);
  if (relative === '' || relative.split(path.sep)[0] === '..' || path.isAbsolute(relative)) {
    throw notUsable('it is not below the folder of workspaces (PERDURE_WORKSPACES)');
  }
  if (make) mkdirSync(workspaces, { recursive: true });
  let at = workspaces;
  for (const name of relative.split(path.sep)) {
    at = path.join(at, name);
    if (!isFolder(at, make)) return;
  }
}

/** False if nothing exists there. */
function isFolder(folder: string, make: boolean): boolean {
  try {
    if (make) makeFolder(folder);
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    if (stat === undefined) return false;
    if (stat.isDirectory()) return true;
    throw notUsable(stat.isSymbolicLink() ? 'its path contains a link' : 'its path contains a file');
  } catch (error) {
    if (error instanceof PerdureError) throw error;
    throw notUsable(`it cannot be used (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`, error);
  }
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function notUsable(why: string, cause?: unknown): PerdureError {
  return new PerdureError('WorkspaceNotUsable', `the workspace of this session cannot be used: ${why}`, { cause });
}
