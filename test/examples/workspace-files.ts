// Workspaces with their snapshots, for tests without servers.
import type { Dirent } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { removeTree } from '../../workspaces/remove-tree.ts';

/** A signal that does not fire. */
export const never = new AbortController().signal;

/** Where each kind has an entry for each state. */
export const STATES = { copy: 'copies', git: 'git/refs/snapshots' };

/** The name of a snapshot's state. */
export const nameOf = (id: string) => id.split('-').slice(2).join('-');

/** Files by path: their content, a link's target with an arrow, null: a folder. */
export type Files = Record<string, string | Buffer | null>;

export async function write(root: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const at = path.join(root, name);
    await mkdir(content === null ? at : path.dirname(at), { recursive: true });
    if (typeof content === 'string' && content.startsWith('→ ')) await symlink(content.slice(2), at);
    else if (content !== null) await writeFile(at, content);
  }
}

/** Everything in a workspace, with modes. */
export async function read(root: string): Promise<Record<string, unknown>> {
  const entries: Dirent[] = await readdir(root, { recursive: true, withFileTypes: true });
  const found = entries.map(async (entry) => {
    const at = path.join(entry.parentPath, entry.name);
    const name = path.relative(root, at);
    if (entry.isSymbolicLink()) return [name, `→ ${await readlink(at)}`];
    const mode = ((await stat(at)).mode & 0o7777).toString(8);
    return [name, entry.isDirectory() ? mode : [mode, (await readFile(at)).toString('latin1')]];
  });
  return Object.fromEntries(await Promise.all(found)) as Record<string, unknown>;
}

/** Until the test ends, this process is nobody: root may write into read-only folders. */
export function dropPrivileges(): void {
  if (process.geteuid?.() !== 0) return;
  process.seteuid?.(65_534);
  onTestFinished(() => process.seteuid?.(0));
}

/** A workspace with files, and a folder for its snapshots. */
export async function placeWith(files: Files) {
  const home = await mkdtemp(path.join(tmpdir(), 'perdure-snapshots-'));
  afterFile(() => removeTree(home));
  const workspaceRoot = path.join(home, 'workspace');
  await mkdir(workspaceRoot);
  await write(workspaceRoot, files);
  const folder = path.join(home, 'snapshots');
  return { sessionId: 's', userId: 'ada', projectId: null, madeProject: false, workspaceRoot, folder, home };
}

export const PAGE: Files = { 'index.html': 'one', 'css/site.css': 'blue', link: '→ index.html' };
