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
