import { lstatSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';

/**
 * Checks that a workspace is below the folder of all workspaces with no symbolic link on the path: tools of one session
 * could create a link in their workspace, and another session be opened behind it. Synchronous, because a few stats are
 * quicker than the thread pool. Missing folders are allowed, and created with `make`.
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export function requireWorkspace(workspaces: string, root: string, { make = false } = {}): void {
  const way = path.relative(workspaces, root);
  if (way === '' || way.split(path.sep)[0] === '..' || path.isAbsolute(way)) {
    throw notUsable('it lies outside of the folder of workspaces (PERDURE_WORKSPACES)');
  }
  if (make) mkdirSync(workspaces, { recursive: true });
  let at = workspaces;
  for (const name of way.split(path.sep)) {
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
    throw notUsable(stat.isSymbolicLink() ? 'a link is on the way; links are not followed' : 'a file is on the way');
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
