import { type BigIntStats, constants, type Dirent, existsSync, type Stats } from 'node:fs';
import {
  chmod,
  copyFile,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';

/** On Linux a path can start at an open folder's descriptor, so that no folder on it can be replaced by a link meanwhile. */
const BY_DESCRIPTOR = existsSync('/proc/self/fd');
/** Not on Windows, where creating links requires a privilege. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const FOLDER = constants.O_RDONLY | NO_FOLLOW | (constants.O_DIRECTORY ?? 0);
/** Without it, opening a named pipe would wait for a writer. */
const NO_WAIT = constants.O_NONBLOCK ?? 0;

const SET_ID = 0o6000;

export interface OpenOptions {
  /** Create missing folders. */
  makeFolders?: boolean;
  /** Permissions of a created file. */
  mode?: number;
}

/**
 * Opens a file below `root`, folder by folder, without following any link, even if folders change meanwhile. The caller
 * closes it. Do not pass `O_TRUNC`: truncate the opened file.
 * @param file relative, without ".." (see `pathFault`)
 * @throws {NodeJS.ErrnoException} `ELOOP` for a link, else what the system says
 */
export async function openInside(
  root: string,
  file: string,
  flags: number,
  { makeFolders = false, mode = 0o644 }: OpenOptions = {},
): Promise<FileHandle> {
  await using folder = await Folder.descend(root, path.dirname(file), makeFolders);
  return await folder.open(path.basename(file), flags, mode);
}

/**
 * An open folder below `root`, reached as in `openInside`. The caller disposes of it.
 * @throws {NodeJS.ErrnoException} as `openInside`
 */
export function folderInside(root: string, folder: string): Promise<Folder> {
  return Folder.descend(root, folder, false);
}

/** `folderInside` opens one. */
export class Folder implements AsyncDisposable {
  private readonly path: string;
  private readonly handle: FileHandle | undefined;

  private constructor(folder: string, handle: FileHandle | undefined) {
    this.path = folder;
    this.handle = handle;
  }

  static async descend(root: string, relative: string, make: boolean): Promise<Folder> {
    const names = path.normalize(relative).split(path.sep);
    if (names.includes('..') || path.isAbsolute(relative)) throw linkError();
    const real = await realpath(root);
    let folder = new Folder(real, BY_DESCRIPTOR ? await open(real, FOLDER) : undefined);
    for (const name of names.filter((each) => each !== '' && each !== '.')) {
      await using above = folder;
      folder = await above.enter(name, make);
    }
    return folder;
  }

  async open(name: string, flags: number, mode: number): Promise<FileHandle> {
    const handle = await open(this.at(name), flags | NO_FOLLOW | NO_WAIT, mode);
    if (this.handle !== undefined || (await isAt(handle, path.join(this.path, name)))) return handle;
    await handle.close();
    throw linkError();
  }

  entries(): Promise<Dirent[]> {
    return readdir(this.at('.'), { withFileTypes: true });
  }

  /** Does not follow a link. */
  stat(name: string): Promise<Stats> {
    return lstat(this.at(name));
  }

  /** The same with times in nanoseconds. */
  exactStat(name: string): Promise<BigIntStats> {
    return lstat(this.at(name), { bigint: true });
  }

  /** The target of a link. */
  readLink(name: string): Promise<Buffer> {
    return readlink(this.at(name), 'buffer');
  }

  /**
   * Copies a file to a path where there is none, with its mode but set-uid and set-gid, as the copy may have another owner. File
   * systems with copy-on-write copy no content.
   * @throws {NodeJS.ErrnoException} `ELOOP` for a link, `EINVAL` for what is no file, `EFBIG` for more than `maxBytes`, else what
   * the system says
   */
  async copy(name: string, target: string, maxBytes: number): Promise<void> {
    await using handle = await this.open(name, constants.O_RDONLY, 0);
    const stat = await handle.stat();
    if (!stat.isFile()) throw Object.assign(new Error('not a file'), { code: 'EINVAL' });
    if (stat.size > maxBytes) throw Object.assign(new Error(`${name} has grown`), { code: 'EFBIG' });
    if (this.handle === undefined) await writeFile(target, await handle.readFile(), { flag: 'wx', mode: stat.mode });
    else await copyFile(`/proc/self/fd/${handle.fd}`, target, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    if ((stat.mode & SET_ID) !== 0) await chmod(target, stat.mode & 0o777);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.handle?.close();
  }

  private async enter(name: string, make: boolean): Promise<Folder> {
    const target = this.at(name);
    if (make) await mkdir(target).catch(unlessExists);
    const next = path.join(this.path, name);
    const stat = await this.stat(name);
    if (stat.isSymbolicLink()) throw linkError();
    if (!stat.isDirectory()) throw Object.assign(new Error('not a folder'), { code: 'ENOTDIR' });
    // The folder may have been replaced by a link since `stat`; opening it detects that.
    return new Folder(next, this.handle && (await open(target, FOLDER)));
  }

  private at(name: string): string {
    return this.handle === undefined ? path.join(this.path, name) : `/proc/self/fd/${this.handle.fd}/${name}`;
  }
}

/** On systems without descriptor paths: checks that the opened file is the one at the resolved path. */
async function isAt(handle: FileHandle, target: string): Promise<boolean> {
  const [opened, now, real] = await Promise.all([handle.stat(), lstat(target), realpath(target)]);
  return real === target && now.dev === opened.dev && now.ino === opened.ino;
}

function unlessExists(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
}

function linkError(): NodeJS.ErrnoException {
  return Object.assign(new Error('the path contains a link'), { code: 'ELOOP' });
}
