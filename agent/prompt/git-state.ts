import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type GitEvidence, evidenceOf, holds } from './git-evidence.ts';
import { foldersBetween } from './instructions.ts';

const run = promisify(execFile);

/** After this the state is unknown. */
const GIT_TIMEOUT_MS = 1_000;
/** The `packed-refs` of a repository with 50,000 tags is this long. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
const MAX_CHANGES = 16 * 1024 * 1024;

/**
 * Branch and state of the nearest git repository between `workspaceRoot` and `boundary`, such as `branch main, clean`;
 * undefined without one. Branch and commit are read from the files; only whether it is clean needs git itself, once until
 * something changes.
 */
export async function gitStateOf(workspaceRoot: string, boundary: string): Promise<string | undefined> {
  const folder = foldersBetween(boundary, workspaceRoot).findLast(hasGitFolder);
  if (folder === undefined) return undefined;
  const gitDir = path.join(folder, '.git');
  const head = readHead(gitDir);
  if (head === undefined) return 'unreadable';
  const where = head.branch === undefined ? 'no branch' : `branch ${head.branch}`;
  return `${where}, ${await cleanOrDirty(folder, gitDir, head.commit)}`;
}

function hasGitFolder(folder: string): boolean {
  return lstatSync(path.join(folder, '.git'), { throwIfNoEntry: false })?.isDirectory() ?? false;
}

interface Head {
  branch?: string;
  /** Undefined before the first commit. */
  commit?: string;
}

const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

function readHead(gitDir: string): Head | undefined {
  const head = readText(path.join(gitDir, 'HEAD'))?.trim();
  if (head === undefined) return undefined;
  if (COMMIT.test(head)) return { commit: head };
  // An invalid branch name is not followed: ".." would lead out of the folder.
  const [, ref] = /^ref: (refs\/heads\/[^\s~^:?*[\\]{1,255})$/.exec(head) ?? [];
  if (ref === undefined || ref.includes('..')) return undefined;
  const branch = ref.slice('refs/heads/'.length);
  const commit = readText(path.join(gitDir, ref))?.trim() ?? packedCommit(gitDir, ref);
  return commit !== undefined && COMMIT.test(commit) ? { branch, commit } : { branch };
}

function packedCommit(gitDir: string, ref: string): string | undefined {
  const line = readText(path.join(gitDir, 'packed-refs'))
    ?.split('\n')
    .find((entry) => entry.endsWith(` ${ref}`));
  return line?.split(' ')[0];
}

/** Undefined unless it is a regular file of limited size: reading a pipe would block the whole process. */
function readText(file: string): string | undefined {
  try {
    const stat = lstatSync(file);
    return stat.isFile() && stat.size <= MAX_FILE_BYTES ? readFileSync(file, 'utf8') : undefined;
  } catch {
    return undefined;
  }
}

/** What git said of repositories, and what shows that it still holds. */
const states = new Map<string, { commit: string; state: string; evidence: GitEvidence }>();
const MAX_STATES = 200;

async function cleanOrDirty(folder: string, gitDir: string, commit: string | undefined): Promise<string> {
  if (commit === undefined) return 'no commit yet';
  try {
    const known = states.get(folder);
    if (known?.commit === commit && holds(known.evidence)) return known.state;
    states.delete(folder);
    const askedAt = Date.now();
    const changes = await changesOf(folder, gitDir, commit);
    const state = changes === '' ? 'clean' : 'dirty';
    const evidence = evidenceOf({ folder, index: path.join(gitDir, 'index') }, changes, askedAt);
    if (evidence === undefined) return state;
    if (states.size >= MAX_STATES) states.delete(states.keys().next().value ?? '');
    states.set(folder, { commit, state, evidence });
    return state;
  } catch {
    return 'state unknown';
  }
}

/** @throws if git takes too long or fails */
async function changesOf(folder: string, gitDir: string, commit: string): Promise<string> {
  const args = ['--no-optional-locks', 'status', '--porcelain', '-z', '--ignore-submodules=all'];
  const env = { PATH: process.env['PATH'], ...gitEnvironment(folder, gitDir, commit) };
  const { stdout } = await run('git', args, { cwd: folder, env, timeout: GIT_TIMEOUT_MS, maxBuffer: MAX_CHANGES });
  return stdout;
}

/** Holds a git folder of our own for each repository. */
let gitFolders: string | undefined;

/**
 * Environment variables with which git uses the repository's objects, index and files, but an empty configuration of our
 * own: a tool may have written the repository's, which can name programs that `git status` would run.
 */
function gitEnvironment(folder: string, gitDir: string, commit: string): Record<string, string> {
  gitFolders ??= temporaryFolder();
  const ours = path.join(gitFolders, createHash('sha256').update(folder).digest('hex').slice(0, 16));
  if (readText(path.join(ours, 'HEAD')) !== commit) {
    mkdirSync(path.join(ours, 'objects'), { recursive: true });
    mkdirSync(path.join(ours, 'refs'), { recursive: true });
    writeFileSync(path.join(ours, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = false\n');
    writeFileSync(path.join(ours, 'HEAD'), commit);
  }
  return {
    GIT_DIR: ours,
    GIT_WORK_TREE: folder,
    GIT_INDEX_FILE: path.join(gitDir, 'index'),
    GIT_OBJECT_DIRECTORY: path.join(gitDir, 'objects'),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: os.devNull,
    GIT_TERMINAL_PROMPT: '0',
  };
}

/** A temporary folder, deleted when the process exits. */
function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'perdure-git-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
