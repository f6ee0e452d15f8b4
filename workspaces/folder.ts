import { lstatSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { PerdureError } from '../domain/errors.ts';

/**
 * Makes sure that a workspace lies below the folder of all workspaces, with no link on the way: one session's tools could
 * make a link in their workspace, and another session be opened behind it. Synchronous, for a few stats take less than a
 * turn of the thread pool. What is not there yet is fine, and is made with `make`.
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

/** False where there is nothing. */
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
