import { lstatSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { foldersBetween, homeOf, isInside } from './instructions.ts';

/** The `packed-refs` of a repository with 50,000 tags is this long. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

/** A working tree, and where its repository is. All are absolute paths. */
export interface GitRepository {
  folder: string;
  /** Has HEAD and index. */
  gitDir: string;
  /** Has objects and branches; the same but of a worktree. */
  commonDir: string;
}

export interface Head {
  branch?: string;
  /** Undefined before the first commit. */
  commit?: string;
}

/**
 * The nearest repository between `workspaceRoot` and `boundary`; undefined without one, `unreadable` if it is elsewhere. A
 * `.git` that is a file, as of a worktree or a submodule, is followed within the first folder below the boundary, which
 * belongs to one user.
 */
export function repositoryOf(workspaceRoot: string, boundary: string): GitRepository | 'unreadable' | undefined {
  const folders = foldersBetween(boundary, workspaceRoot);
  for (const folder of folders.toReversed()) {
    const gitDir = path.join(folder, '.git');
    const stat = lstatSync(gitDir, { throwIfNoEntry: false });
    if (stat?.isDirectory() === true) return { folder, gitDir, commonDir: gitDir };
    if (stat?.isFile() === true) return linked(folder, homeOf(folder, folders));
  }
  return undefined;
}

function linked(folder: string, home: string): GitRepository | 'unreadable' {
  const [, target] = /^gitdir: (.+?)\s*$/.exec(readText(path.join(folder, '.git')) ?? '') ?? [];
  const gitDir = target === undefined ? undefined : within(home, path.resolve(folder, target));
  if (gitDir === undefined) return 'unreadable';
  const common = readText(path.join(gitDir, 'commondir'))?.trim();
  const commonDir = common === undefined ? gitDir : within(home, path.resolve(gitDir, common));
  return commonDir === undefined ? 'unreadable' : { folder, gitDir, commonDir };
}

/** The real path; undefined unless it is inside of `home`. */
function within(home: string, folder: string): string | undefined {
  try {
    const real = realpathSync(folder);
    return isInside(real, realpathSync(home)) ? real : undefined;
  } catch {
    return undefined;
  }
}

const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

/** Branch and commit of a working tree; undefined: it cannot be read. */
export function readHead({ gitDir, commonDir }: GitRepository): Head | undefined {
  const head = readText(path.join(gitDir, 'HEAD'))?.trim();
  if (head === undefined) return undefined;
  if (COMMIT.test(head)) return { commit: head };
  // An invalid branch name is not followed: ".." would lead out of the folder.
  const [, ref] = /^ref: (refs\/heads\/[^\s~^:?*[\\]{1,255})$/.exec(head) ?? [];
  if (ref === undefined || ref.includes('..')) return undefined;
  const branch = ref.slice('refs/heads/'.length);
  const commit = readText(path.join(commonDir, ref))?.trim() ?? packedCommit(commonDir, ref);
  return commit !== undefined && COMMIT.test(commit) ? { branch, commit } : { branch };
}

function packedCommit(commonDir: string, ref: string): string | undefined {
  const line = readText(path.join(commonDir, 'packed-refs'))
    ?.split('\n')
    .find((entry) => entry.endsWith(` ${ref}`));
  return line?.split(' ')[0];
}

/** Undefined unless it is a regular file of limited size: reading a pipe would block the whole process. */
export function readText(file: string): string | undefined {
  try {
    const stat = lstatSync(file);
    return stat.isFile() && stat.size <= MAX_FILE_BYTES ? readFileSync(file, 'utf8') : undefined;
  } catch {
    return undefined;
  }
}
