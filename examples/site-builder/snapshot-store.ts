import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { removeTree } from '../../workspaces/remove-tree.ts';
import type { WorkspaceFolder } from './workspace-folders.ts';

/** Keeps states of a workspace in a folder. */
export interface SnapshotStore {
  /** The folder in which each state has an entry with its name. Without the entry there is no such state. */
  states(folder: string): string;
  save(folder: string, name: string, workspace: Workspace, signal: AbortSignal): Promise<void>;
  /** Writes a state into a new folder. */
  load(folder: string, name: string, into: string, signal: AbortSignal): Promise<void>;
}

/** A workspace to save. */
export interface Workspace {
  root: string;
  folders: readonly WorkspaceFolder[];
}

/** The folder of what is not complete yet. */
export const unfinishedIn = (folder: string): string => path.join(folder, 'unfinished');

/** Calls `make` with the path of a new file or folder, and removes what it has left there. */
export async function unfinished(folder: string, make: (made: string) => Promise<void>): Promise<void> {
  const made = path.join(unfinishedIn(folder), randomUUID());
  await mkdir(unfinishedIn(folder), { recursive: true });
  try {
    await make(made);
  } finally {
    await removeTree(made);
  }
}
