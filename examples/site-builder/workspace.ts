import { constants } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { openInside } from '../../workspaces/open.ts';
import { pathFault } from '../../workspaces/paths.ts';

/** Maximum size of a file that is written or read. */
export const MAX_FILE_BYTES = 256 * 1024;

const MAX_LISTED = 200;

/** A refused path or file, with a message for the model. */
class WorkspaceError extends Error {
  readonly code = 'WorkspaceError';

  constructor(message: string) {
    super(`path: ${message}`);
    this.name = 'WorkspaceError';
  }
}

/**
 * Writes a text file below `root`, and creates missing folders.
 * @returns its size in bytes
 * @throws {WorkspaceError} if the path leaves the workspace or contains a link, or the text is too large
 */
export async function writeTextFile(root: string, file: string, content: string): Promise<number> {
  const bytes = Buffer.from(content, 'utf8');
  if (bytes.length > MAX_FILE_BYTES) {
    throw new WorkspaceError(`${file} would be ${bytes.length} bytes long; at most ${MAX_FILE_BYTES} are allowed`);
  }
  checkPath(file);
  try {
    await using handle = await openInside(root, file, constants.O_WRONLY | constants.O_CREAT, { makeFolders: true });
    if (!(await handle.stat()).isFile()) throw new WorkspaceError(`${file} is not a file`);
    await handle.truncate();
    await handle.writeFile(bytes);
  } catch (error) {
    throw explained(file, error);
  }
  return bytes.length;
}

/**
 * Reads a text file below `root`.
 * @throws {WorkspaceError} as `writeTextFile`, and if the file is missing or not text
 */
export async function readTextFile(root: string, file: string): Promise<string> {
  checkPath(file);
  try {
    await using handle = await openInside(root, file, constants.O_RDONLY);
    const stat = await handle.stat();
    if (!stat.isFile()) throw new WorkspaceError(`${file} is not a file`);
    if (stat.size > MAX_FILE_BYTES) {
      throw new WorkspaceError(`${file} is ${stat.size} bytes long; at most ${MAX_FILE_BYTES} can be read`);
    }
    return await handle.readFile('utf8');
  } catch (error) {
    throw explained(file, error);
  }
}

function checkPath(file: string): void {
  const fault = pathFault(file);
  if (fault !== undefined) throw new WorkspaceError(fault);
}

/** The entries of the workspace's top folder, at most 200, sorted; folders end with a slash. */
export async function listTopFolder(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true });
  return entries
    .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
    .toSorted()
    .slice(0, MAX_LISTED);
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is a file, not a folder',
  ELOOP: 'the path contains a link',
  EACCES: 'access was refused',
  EPERM: 'access was refused',
  ENOSPC: 'the disk is full',
  ENAMETOOLONG: 'a name in the path is too long',
  ENXIO: 'it is not a file',
};

/** Replaces the system's message, which contains paths of the worker. */
function explained(file: string, error: unknown): WorkspaceError {
  if (error instanceof WorkspaceError) return error;
  const { code } = error as NodeJS.ErrnoException;
  return new WorkspaceError(`${file}: ${REASONS[code ?? ''] ?? `it cannot be used (${code ?? 'unknown error'})`}`);
}
