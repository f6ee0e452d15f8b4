import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { folderInside, openInside } from '../../workspaces/open.ts';
import { pathFault } from '../../workspaces/paths.ts';

/** A file of a workspace: path relative to the workspace, with slashes; `updated_at` in ISO 8601. */
export interface WorkspaceFile {
  path: string;
  bytes: number;
  updated_at: string;
}

const FILES_IN_LIST = 500;
/** Maximum number of folders read per listing. */
const FOLDERS_IN_LIST = 200;
/** Largest file that is served, in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Read buffer per reader, in bytes. */
const CHUNK_BYTES = 64 * 1024;

/**
 * The files of a workspace, at most 500, a folder's own files before those of its subfolders. Links and names that
 * begin with a dot are skipped. A missing folder has no files.
 */
export async function listFiles(root: string): Promise<WorkspaceFile[]> {
  const files: WorkspaceFile[] = [];
  const folders = [''];
  for (let at = 0; at < folders.length && at < FOLDERS_IN_LIST && files.length < FILES_IN_LIST; at++) {
    const found = await readFolder(root, folders[at] ?? '', FILES_IN_LIST - files.length);
    folders.push(...found.folders);
    files.push(...found.files);
  }
  return files;
}

/** The contents of one folder. Files deleted during the listing are skipped; a deleted folder is empty. */
async function readFolder(
  root: string,
  folderPath: string,
  most: number,
): Promise<{ folders: string[]; files: WorkspaceFile[] }> {
  try {
    await using folder = await folderInside(root, folderPath);
    const entries = (await folder.entries())
      .filter(({ name }) => !name.startsWith('.'))
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
    const nameOf = (name: string) => (folderPath === '' ? name : `${folderPath}/${name}`);
    const names = entries.filter((entry) => entry.isFile()).slice(0, most);
    const stats = await Promise.all(names.map(({ name }) => folder.stat(name).catch(() => undefined)));
    return {
      folders: entries.filter((entry) => entry.isDirectory()).map(({ name }) => nameOf(name)),
      files: names.flatMap(({ name }, at) => {
        const stat = stats[at];
        return stat ? [{ path: nameOf(name), bytes: stat.size, updated_at: stat.mtime.toISOString() }] : [];
      }),
    };
  } catch {
    return { folders: [], files: [] };
  }
}

/** A file that is streamed. */
export interface OpenFile {
  bytes: number;
  body: ReadableStream<Uint8Array>;
}

/**
 * Opens a file of a workspace; undefined for missing files, paths outside the workspace, links, names that begin with a
 * dot, and files larger than 16 MiB. If the file grows meanwhile, only its length at opening is sent.
 */
export async function openFileInside(root: string, file: string): Promise<OpenFile | undefined> {
  if (pathFault(file) !== undefined || file.split(/[\\/]/).some((name) => name.startsWith('.'))) return undefined;
  const handle = await openInside(root, file, constants.O_RDONLY).catch(() => undefined);
  if (handle === undefined) return undefined;
  const stat = await handle.stat().catch(() => undefined);
  if (stat?.isFile() === true && stat.size <= MAX_BYTES) return { bytes: stat.size, body: bodyOf(handle, stat.size) };
  await handle.close();
  return undefined;
}

function bodyOf(handle: FileHandle, bytes: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.min(CHUNK_BYTES, bytes - at)), {
          position: at,
        });
        at += bytesRead;
        if (bytesRead > 0) controller.enqueue(new Uint8Array(buffer.buffer, buffer.byteOffset, bytesRead));
        if (at < bytes && bytesRead > 0) return;
        await handle.close();
        // Truncated meanwhile: abort, so that the reader does not mistake it for a complete file.
        if (at < bytes) controller.error(new Error('a file became shorter while it was sent'));
        else controller.close();
      },
      cancel: () => handle.close(),
    },
    { highWaterMark: 0 },
  );
}
