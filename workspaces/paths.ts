import { createHash } from 'node:crypto';
import path from 'node:path';

/**
 * The folder of all workspaces of a user, so that no user can name a path in another's. It is named by the SHA-256 of the
 * user id, which may contain any character.
 */
export function userFolder(workspaces: string, userId: string): string {
  const name = createHash('sha256').update(userId).digest('hex').slice(0, 32);
  return path.join(workspaces, name);
}

/** A session's workspace: its `workspace_root`, else a folder named by its project or by its session id. */
export function workspaceRoot(
  workspaces: string,
  session: { session_id: string; user_id: string; project_id: string | null; workspace_root: string | null },
): string {
  const { session_id, user_id, project_id, workspace_root } = session;
  return workspace_root ?? path.join(userFolder(workspaces, user_id), project_id ?? session_id);
}

/** The folder of all snapshots, in a user's folder. No workspace: what tools write must not get there. */
export const SNAPSHOTS_FOLDER = '.snapshots';

/** Characters of a path in a workspace. */
export const MAX_PATH = 512;

/** What is wrong with the path of a file in a workspace; undefined: nothing. Links are checked when it is opened. */
export function pathFault(file: string): string | undefined {
  if (file === '' || file.length > MAX_PATH) return `expected 1 to ${MAX_PATH} characters`;
  if (file.includes('\0')) return 'expected no U+0000';
  if (path.isAbsolute(file) || path.win32.isAbsolute(file)) {
    return `${file} is absolute; use a path relative to the workspace`;
  }
  const names = file.split(/[\\/]/);
  if (names.includes('..')) return `${file} contains ".."; use a path below the workspace`;
  // Settings in .git can make git run programs.
  if (names.some((name) => name.toLowerCase() === '.git')) return `${file}: .git is not accessible`;
  if (names.at(-1) === '' || names.at(-1) === '.') return `${file} names a folder, not a file`;
  return undefined;
}
