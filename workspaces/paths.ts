import { createHash } from 'node:crypto';
import path from 'node:path';

/**
 * The folder below which all workspaces of a user lie: nobody can name a place in another's. The user's id may hold
 * anything, so its SHA-256 stands for it.
 */
export function userFolder(workspaces: string, userId: string): string {
  const name = createHash('sha256').update(userId).digest('hex').slice(0, 32);
  return path.join(workspaces, name);
}

/** Where a session works: in its own folder, else in one of its project's or of its own id's. */
export function workspaceRoot(
  workspaces: string,
  session: { session_id: string; user_id: string; project_id: string | null; workspace_root: string | null },
): string {
  const { session_id, user_id, project_id, workspace_root } = session;
  return workspace_root ?? path.join(userFolder(workspaces, user_id), project_id ?? session_id);
}

const MAX_PATH = 512;

/**
 * What is wrong with a path that is to name a file of a workspace; undefined: nothing, as far as its text tells. Links
 * are for whoever opens it to mind.
 */
export function oddPath(file: string): string | undefined {
  if (file === '' || file.length > MAX_PATH) return `a path has 1 to ${MAX_PATH} characters`;
  if (file.includes('\0')) return 'a path cannot hold U+0000';
  if (path.isAbsolute(file) || path.win32.isAbsolute(file)) {
    return `${file} is absolute; use a path relative to the workspace`;
  }
  const names = file.split(/[\\/]/);
  if (names.includes('..')) return `${file} holds ".."; use a path below the workspace`;
  // A repository's own folder holds settings that make git run programs.
  if (names.some((name) => name.toLowerCase() === '.git')) return `${file}: .git is not for tools`;
  if (names.at(-1) === '' || names.at(-1) === '.') return `${file} names a folder, not a file`;
  return undefined;
}
