import { createHash, randomUUID } from 'node:crypto';
import { realpathSync, renameSync } from 'node:fs';
import { chmod, mkdir, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { SnapshotPlace, Snapshots } from '../../agent/snapshots.ts';
import { removeTree } from '../../workspaces/remove-tree.ts';
import { gitTrees } from './git-trees.ts';
import { type SnapshotStore, unfinished, unfinishedIn } from './snapshot-store.ts';
import { workspaceCopies } from './workspace-copies.ts';
import { workspaceFolders } from './workspace-folders.ts';

const STORES = { copy: workspaceCopies, git: gitTrees } satisfies Record<string, SnapshotStore>;

/** How the states of a workspace are kept. */
export type SnapshotKind = keyof typeof STORES;

/** The kind, a digest of the workspace's name, and the name of the state. */
const ID = /^(copy|git)-([0-9a-f]{8})-([0-9a-f-]{36})$/;

/** Snapshots of a session that are kept; the oldest ones are deleted. */
export const KEPT = 50;
/** What lost workers have left unfinished is deleted at this age. */
const UNFINISHED_MS = 60_000;

/** Snapshots of workspaces of at most `maxBytes`. Those of the other kind are restored, too. */
export function workspaceSnapshots(kind: SnapshotKind, maxBytes: number): Snapshots {
  return {
    async take({ workspaceRoot: root, folder }, signal) {
      const folders = await workspaceFolders(root, maxBytes, signal);
      const [store, name] = [STORES[kind], randomUUID()];
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await deleteOldest(Object.values(STORES).map((each) => each.states(folder)));
      await deleteUnfinished(unfinishedIn(folder));
      await store.save(folder, name, { root, folders }, signal);
      return `${kind}-${digestOf(root)}-${name}`;
    },

    async restore(place, id, signal) {
      const [, kindOfId, digest, name = ''] = ID.exec(id) ?? [];
      if (kindOfId === undefined) throw new Error('there is no such snapshot');
      const store = STORES[kindOfId as SnapshotKind];
      // Else it is of the folder that the session had before it got a project.
      if (digest === digestOf(place.workspaceRoot)) {
        await replace(place, signal, (into) => store.load(place.folder, name, into, signal));
      } else if (place.madeProject) {
        await replace(place, signal, (into) => mkdir(into));
      }
    },
  };
}

/** Of its last name only: workers may have the folder of workspaces in different places. */
function digestOf(workspaceRoot: string): string {
  return createHash('sha256').update(path.basename(workspaceRoot)).digest('hex').slice(0, 8);
}

/** Replaces the workspace by a folder that `make` makes on the same file system. */
async function replace(
  { workspaceRoot, folder }: SnapshotPlace,
  signal: AbortSignal,
  make: (into: string) => Promise<void>,
): Promise<void> {
  const [real, { mode }] = await Promise.all([realpath(workspaceRoot), stat(workspaceRoot)]);
  await unfinished(folder, async (made) => {
    await make(made);
    await chmod(made, mode);
    signal.throwIfAborted();
    // Synchronously from here: else another session of this worker would find no folder, and make one with files in it.
    if (realpathSync(workspaceRoot) !== real) throw new Error('a folder around the workspace was replaced by a link');
    const old = `${made}.old`;
    renameSync(workspaceRoot, old);
    try {
      renameSync(made, workspaceRoot);
    } catch (error) {
      renameSync(old, workspaceRoot);
      throw error;
    }
    // The files are restored, whether or not this works.
    await removeTree(old).catch(() => {});
  });
}

/** Deletes all but the newest states, of whichever kind, so that there is room for one more. */
async function deleteOldest(folders: readonly string[]): Promise<void> {
  const states = (await Promise.all(folders.map(statsIn))).flat();
  const newest = states.toSorted((a, b) => b.stats.mtimeMs - a.stats.mtimeMs);
  await deleteAll(newest.slice(KEPT - 1));
}

async function deleteUnfinished(folder: string): Promise<void> {
  const before = Date.now() - UNFINISHED_MS;
  // What cannot be deleted, such as a path that is too long for the system, must not keep a snapshot from being taken.
  await deleteAll((await statsIn(folder)).filter(({ stats }) => stats.ctimeMs < before)).catch(() => {});
}

/** Of what is in a folder, if there is one. */
async function statsIn(folder: string) {
  const names = await readdir(folder).catch(() => []);
  const found = names.map(async (name) => {
    const file = path.join(folder, name);
    // A hook whose time is up may still be deleting there.
    return stat(file).then(
      (stats) => [{ file, stats }],
      () => [],
    );
  });
  return (await Promise.all(found)).flat();
}

async function deleteAll(entries: readonly { file: string }[]): Promise<void> {
  await Promise.all(entries.map(({ file }) => removeTree(file)));
}
