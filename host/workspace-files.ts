import { constants, type Dirent } from 'node:fs';
import { lstat, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { oddPath } from '../domain/workspaces.ts';

/** A file of a workspace: path relative to it, with slashes; `updated_at` in ISO 8601. */
export interface WorkspaceFile {
  path: string;
  bytes: number;
  updated_at: string;
}

const FILES_IN_LIST = 500;
/** Folders that are looked into for a list. */
const FOLDERS_IN_LIST = 200;
/** Largest file that is served, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Without O_NONBLOCK, opening a pipe would wait for a writer. Both are absent on Windows. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The files of a workspace, at most 500, those of a folder before those of the folders in it. Names that begin with a
 * dot are left out, links too. A folder that is not there has none.
 */
export async function listFiles(root: string): Promise<WorkspaceFile[]> {
  const files: string[] = [];
  const folders = [''];
  for (let at = 0; at < folders.length && at < FOLDERS_IN_LIST && files.length < FILES_IN_LIST; at++) {
    const folder = folders[at] ?? '';
    for (const entry of await entriesOf(path.join(root, folder))) {
      const name = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) folders.push(name);
      else if (entry.isFile()) files.push(name);
    }
  }
  const described = await Promise.all(files.slice(0, FILES_IN_LIST).map((file) => describe(root, file)));
  return described.filter((file) => file !== undefined);
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter(({ name }) => !name.startsWith('.')).toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Undefined where the file has gone meanwhile. */
async function describe(root: string, file: string): Promise<WorkspaceFile | undefined> {
  const found = await lstat(path.join(root, file)).catch(() => undefined);
  return found && { path: file, bytes: found.size, updated_at: found.mtime.toISOString() };
}

/**
 * What is in a file of a workspace; undefined: there is no such file to be had. That goes for everything outside of it,
 * what a link leads to, names that begin with a dot, and what is larger than 16 MiB.
 */
export async function readFileInside(root: string, file: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (oddPath(file) !== undefined || file.split(/[\\/]/).some((name) => name.startsWith('.'))) return undefined;
  try {
    const target = path.join(await realpath(root), file);
    await using handle = await open(target, FLAGS);
    const opened = await handle.stat();
    if (!opened.isFile() || opened.size > MAX_BYTES) return undefined;
    // Judged after opening: what is at the path, links on the way resolved, has to be the path, and what was opened.
    const now = await stat(target);
    const isInside = (await realpath(target)) === target && now.dev === opened.dev && now.ino === opened.ino;
    return isInside ? new Uint8Array(await handle.readFile()) : undefined;
  } catch {
    return undefined;
  }
}
