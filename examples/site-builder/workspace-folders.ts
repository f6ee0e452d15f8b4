import type { BigIntStats } from 'node:fs';
import path from 'node:path';
import { folderInside } from '../../workspaces/open.ts';

/** A folder of a workspace. */
export interface WorkspaceFolder {
  /** Relative to the workspace, which is itself '.'. */
  path: string;
  entries: readonly WorkspaceEntry[];
}

/** A file, folder or symbolic link. */
export interface WorkspaceEntry {
  name: string;
  stat: BigIntStats;
}

/** A file may have grown by so much since then, such as a log. */
const GROWTH_BYTES = 64 * 1024;
/** A file that is larger meanwhile is not copied. */
export const mostBytes = ({ stat }: WorkspaceEntry): number => Number(stat.size) + GROWTH_BYTES;

/** A workspace with more files, folders and links has no snapshots: they would not be copied within the time of a hook. */
export const MAX_ENTRIES = 2_000;

/**
 * All folders of a workspace, each after the one that it is in. Links are not followed.
 * @throws {Error} if there is more than `MAX_ENTRIES` or `maxBytes`, something else than files, folders and links, or
 * a name that is not UTF-8
 */
export async function workspaceFolders(
  root: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<WorkspaceFolder[]> {
  const paths = ['.'];
  const folders: WorkspaceFolder[] = [];
  let [count, bytes] = [0, 0];
  // Grows meanwhile.
  for (const at of paths) {
    signal.throwIfAborted();
    const entries = await entriesIn(root, at);
    folders.push({ path: at, entries });
    for (const { name, stat } of entries) {
      if (stat.isDirectory()) paths.push(path.join(at, name));
      if (stat.isFile()) bytes += Number(stat.size);
    }
    if ((count += entries.length) > MAX_ENTRIES) {
      throw new Error(`the workspace has more than ${MAX_ENTRIES} files, folders and links`);
    }
    if (bytes > maxBytes) throw new Error(`the workspace has more than ${maxBytes} bytes (PERDURE_MAX_SNAPSHOT)`);
  }
  return folders;
}

async function entriesIn(root: string, at: string): Promise<WorkspaceEntry[]> {
  await using folder = await folderInside(root, at);
  const found = await folder.entries();
  // One more shows that there are too many.
  return await Promise.all(
    found.slice(0, MAX_ENTRIES + 1).map(async ({ name }) => {
      // It stands for bytes that are not UTF-8.
      if (name.includes('\uFFFD')) throw new Error(`the name of ${path.join(at, name)} is not UTF-8`);
      const stat = await folder.exactStat(name);
      if (stat.isFile() || stat.isDirectory() || stat.isSymbolicLink()) return { name, stat };
      throw new Error(`${path.join(at, name)} is no file, folder or link`);
    }),
  );
}
