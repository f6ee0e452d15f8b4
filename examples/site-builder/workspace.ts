import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { oddPath } from '../../domain/workspaces.ts';

/** Largest file that is written or read, in bytes. */
export const MAX_FILE_BYTES = 256 * 1024;

const NAMES_IN_LIST = 200;
/** Absent on Windows, where links need a privilege to be made. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;

/** A path or file that the workspace refuses; the message says why, and is for the model. */
class WorkspaceError extends Error {
  readonly code = 'WorkspaceError';

  constructor(message: string) {
    super(message);
    this.name = 'WorkspaceError';
  }
}

/**
 * Writes a text file below `root`, and the folders on the way.
 * @returns its size in bytes
 * @throws {WorkspaceError} when the path leads out of the workspace, through a link, or the text is too large
 */
export async function writeTextFile(root: string, file: string, content: string): Promise<number> {
  const bytes = Buffer.from(content, 'utf8');
  if (bytes.length > MAX_FILE_BYTES) {
    throw new WorkspaceError(`${file} would be ${bytes.length} bytes long; at most ${MAX_FILE_BYTES} are allowed`);
  }
  const target = await inside(root, file);
  try {
    await mkdir(path.dirname(target), { recursive: true });
    // Judged again: what was made just now, or meanwhile, may be something else than a folder of the workspace.
    await inside(root, file);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | NO_FOLLOW;
    const handle = await open(target, flags, 0o644);
    try {
      await handle.writeFile(bytes);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw explained(file, error);
  }
  return bytes.length;
}

/**
 * Reads a text file below `root`.
 * @throws {WorkspaceError} as above, and when there is no such file or it is no text
 */
export async function readTextFile(root: string, file: string): Promise<string> {
  const target = await inside(root, file);
  try {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    const handle = await open(target, constants.O_RDONLY | NO_FOLLOW | (constants.O_NONBLOCK ?? 0));
    try {
      const stat = await handle.stat();
      if (!stat.isFile()) throw new WorkspaceError(`${file} is not a file`);
      if (stat.size > MAX_FILE_BYTES) {
        throw new WorkspaceError(`${file} is ${stat.size} bytes long; at most ${MAX_FILE_BYTES} can be read`);
      }
      return await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw explained(file, error);
  }
}

/** The names of what is in the workspace's top folder, at most 200, sorted; folders end with a slash. */
export async function listTopFolder(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true });
  return entries
    .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
    .toSorted()
    .slice(0, NAMES_IN_LIST);
}

/** The absolute path of a relative one, once it is sure that it stays below `root`. */
async function inside(root: string, file: string): Promise<string> {
  const odd = oddPath(file);
  if (odd !== undefined) throw new WorkspaceError(odd);
  const realRoot = await realpath(root);
  const target = path.join(realRoot, file);
  const parent = await nearestRealFolder(path.dirname(target), file);
  if (parent !== realRoot && !parent.startsWith(realRoot + path.sep)) {
    throw new WorkspaceError(`${file} leads out of the workspace`);
  }
  return target;
}

/** The real path of the nearest folder on the way up that exists. */
async function nearestRealFolder(folder: string, file: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (error) {
    // A link that leads nowhere exists, and mkdir would follow it.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || (await isLink(folder))) throw explained(file, error);
    return nearestRealFolder(path.dirname(folder), file);
  }
}

async function isLink(file: string): Promise<boolean> {
  return lstat(file).then(
    (stat) => stat.isSymbolicLink(),
    () => false,
  );
}

const SENTENCES: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is a file, not a folder',
  ELOOP: 'it is a link; links are not followed',
  EACCES: 'access was refused',
  EPERM: 'access was refused',
  ENOSPC: 'the disk is full',
  ENAMETOOLONG: 'a name in the path is too long',
  EEXIST: 'a part of the path is a file, not a folder',
};

/** The error in words of ours: the system's own would show the worker's paths to the model. */
function explained(file: string, error: unknown): WorkspaceError {
  if (error instanceof WorkspaceError) return error;
  const { code } = error as NodeJS.ErrnoException;
  return new WorkspaceError(`${file}: ${SENTENCES[code ?? ''] ?? `it cannot be used (${code ?? 'unknown error'})`}`);
}
