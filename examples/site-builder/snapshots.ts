import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { cp, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Snapshots } from '../../agent/snapshots.ts';

const ID = /^[0-9a-f-]{36}$/;

/** Snapshots of a session that are kept; the oldest ones are deleted. */
export const KEPT = 50;

/** Snapshots as copies of the workspace. File systems with copy-on-write store what differs only. */
export const workspaceCopies: Snapshots = {
  async take({ workspaceRoot, folder }, signal) {
    const id = randomUUID();
    await mkdir(folder, { recursive: true });
    await deleteOldest(folder);
    await complete(workspaceRoot, folder, signal, (copied) => rename(copied, path.join(folder, id)));
    return id;
  },

  async restore({ workspaceRoot, folder }, id, signal) {
    if (!ID.test(id)) throw new Error('there is no such snapshot');
    await complete(path.join(folder, id), folder, signal, (copied) => replace(workspaceRoot, copied));
  },
};

/** Copies a folder into another one, hands the copy over once it is complete, and removes what is left of it. */
async function complete(
  from: string,
  into: string,
  signal: AbortSignal,
  use: (copied: string) => Promise<void>,
): Promise<void> {
  const copied = path.join(into, `${randomUUID()}.unfinished`);
  try {
    await copy(from, copied, signal);
    signal.throwIfAborted();
    await use(copied);
  } finally {
    await rm(copied, { recursive: true, force: true });
  }
}

/** Puts a folder in the place of another one of the same file system, which is deleted. */
async function replace(replaced: string, folder: string): Promise<void> {
  const old = `${folder}.old`;
  await rename(replaced, old);
  try {
    await rename(folder, replaced);
  } catch (error) {
    await rename(old, replaced);
    throw error;
  }
  await rm(old, { recursive: true, force: true });
}

/** Deletes all but the newest snapshots, so that there is room for one more, and what workers that were lost have left. */
async function deleteOldest(folder: string): Promise<void> {
  const names = await readdir(folder);
  const copies = await Promise.all(
    names.map(async (name) => ({ name, madeAt: (await stat(path.join(folder, name))).mtimeMs })),
  );
  const oldest = copies.toSorted((a, b) => b.madeAt - a.madeAt).slice(KEPT - 1);
  await Promise.all(oldest.map(({ name }) => rm(path.join(folder, name), { recursive: true, force: true })));
}

/** Copies the contents of a folder; links are copied, not followed. */
async function copy(from: string, to: string, signal: AbortSignal): Promise<void> {
  const filter = () => {
    signal.throwIfAborted();
    return true;
  };
  await cp(from, to, { recursive: true, verbatimSymlinks: true, mode: constants.COPYFILE_FICLONE, filter });
}
