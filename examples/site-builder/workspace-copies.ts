import { chmod, mkdir, rename, symlink } from 'node:fs/promises';
import path from 'node:path';
import { folderInside } from '../../workspaces/open.ts';
import { type SnapshotStore, unfinished } from './snapshot-store.ts';
import { mostBytes, type WorkspaceFolder, workspaceFolders } from './workspace-folders.ts';

const statesIn = (folder: string) => path.join(folder, 'copies');

/** States as copies of the workspace. */
export const workspaceCopies: SnapshotStore = {
  states: statesIn,

  async save(folder, name, { root, folders }, signal) {
    await unfinished(folder, async (copied) => {
      await copy(root, folders, copied, signal);
      await mkdir(statesIn(folder), { recursive: true });
      await rename(copied, path.join(statesIn(folder), name));
    });
  },

  async load(folder, name, into, signal) {
    const from = path.join(statesIn(folder), name);
    await copy(from, await workspaceFolders(from, Infinity, signal), into, signal);
  },
};

/** Copies the contents of a folder into a new one; links are copied, not followed. */
async function copy(
  from: string,
  folders: readonly WorkspaceFolder[],
  into: string,
  signal: AbortSignal,
): Promise<void> {
  for (const { path: at, entries } of folders) {
    await mkdir(path.join(into, at));
    await using source = await folderInside(from, at);
    for (const entry of entries) {
      signal.throwIfAborted();
      const { name, stat } = entry;
      const target = path.join(into, at, name);
      if (stat.isFile()) await source.copy(name, target, mostBytes(entry));
      if (stat.isSymbolicLink()) await symlink(await source.readLink(name), target);
    }
  }
  // Not before: nothing can be written into a folder that is read-only.
  for (const { path: at, entries } of folders) {
    for (const { name, stat } of entries) {
      if (stat.isDirectory()) await chmod(path.join(into, at, name), Number(stat.mode) & 0o7777);
    }
  }
}
