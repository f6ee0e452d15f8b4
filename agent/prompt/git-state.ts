import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type GitEvidence, evidenceOf, holds } from './git-evidence.ts';
import { readHead, readText, type GitRepository, repositoryOf } from './git-repository.ts';

const run = promisify(execFile);

/** After this the state is unknown. */
const GIT_TIMEOUT_MS = 1_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

/**
 * Branch and state of the nearest git repository between `workspaceRoot` and `boundary`, such as `branch main, clean`;
 * undefined without one. Branch and commit are read from the files; only whether it is clean needs git itself, once until
 * something changes.
 */
export async function gitStateOf(workspaceRoot: string, boundary: string): Promise<string | undefined> {
  const repository = repositoryOf(workspaceRoot, boundary);
  if (repository === undefined || repository === 'unreadable') return repository;
  const head = readHead(repository);
  if (head === undefined) return 'unreadable';
  const where = head.branch === undefined ? 'no branch' : `branch ${head.branch}`;
  return `${where}, ${await cleanOrDirty(repository, head.commit)}`;
}

/** What git said of repositories, and what shows that it still holds. */
const states = new Map<string, { commit: string; state: string; evidence: GitEvidence }>();
const MAX_STATES = 200;

async function cleanOrDirty(repository: GitRepository, commit: string | undefined): Promise<string> {
  if (commit === undefined) return 'no commit yet';
  const { folder, gitDir } = repository;
  try {
    const known = states.get(folder);
    if (known?.commit === commit && holds(known.evidence)) return known.state;
    states.delete(folder);
    const askedAt = Date.now();
    const changes = await changesOf(repository, commit);
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
async function changesOf(repository: GitRepository, commit: string): Promise<string> {
  const args = ['--no-optional-locks', 'status', '--porcelain', '-z', '--ignore-submodules=all'];
  const env = { PATH: process.env['PATH'], ...gitEnvironment(repository, commit) };
  const { stdout } = await run('git', args, {
    cwd: repository.folder,
    env,
    timeout: GIT_TIMEOUT_MS,
    // A program in its place may ignore a milder one, and then end as if nothing had changed. It holds no lock.
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  return stdout;
}

/** Holds a git folder of our own for each repository. */
let gitFolders: string | undefined;

/**
 * Environment variables with which git uses the repository's objects, index and files, but an empty configuration of our
 * own: a tool may have written the repository's, which can name programs that `git status` would run.
 */
function gitEnvironment({ folder, gitDir, commonDir }: GitRepository, commit: string): Record<string, string> {
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
    GIT_OBJECT_DIRECTORY: path.join(commonDir, 'objects'),
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
