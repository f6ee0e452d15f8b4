import { constants } from 'node:fs';
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { folderInside } from '../../workspaces/open.ts';
import { GitCommand } from './git-command.ts';
import { collect, prepare, put, repair, repositoryIn, statesIn } from './git-repository.ts';
import { type SnapshotStore, unfinished, type Workspace } from './snapshot-store.ts';
import { mostBytes, type WorkspaceEntry, type WorkspaceFolder } from './workspace-folders.ts';

const stampsIn = (folder: string) => path.join(folder, 'stamps.json');

/**
 * States as trees of a git repository, which stores each content once. Git gets contents, names and modes, not a work tree:
 * attributes, ignored files and repositories in a workspace are files like others, and none of them configures git.
 */
export const gitTrees: SnapshotStore = {
  states: statesIn,

  async save(folder, name, workspace, signal) {
    const save = async () => {
      const now = await prepare(folder);
      const ids = await contentIds(folder, workspace, signal);
      const tree = await writeTree(repositoryIn(folder), workspace.folders, ids, signal);
      await put(folder, path.join(statesIn(folder), name), `${tree}\n`);
      await put(folder, stampsIn(folder), stampsToKeep(workspace.folders, ids, now));
    };
    await save().catch(async () => {
      signal.throwIfAborted();
      // A stamp may be that of a content that is lost, and a collection may delete a folder that git is about to write to.
      await rm(stampsIn(folder), { force: true });
      await repair(folder);
      await save();
    });
    await collect(folder);
  },

  async load(folder, name, into, signal) {
    const tree = (await readFile(path.join(statesIn(folder), name), 'utf8')).trim();
    await prepare(folder);
    try {
      await using objects = new GitCommand(repositoryIn(folder), ['cat-file', '--batch'], signal);
      await readTree(objects, tree, into);
    } catch (error) {
      if (!signal.aborted) await repair(folder);
      throw error;
    }
  },
};

/** The ids of contents, by the stamps of files and links that have them. */
type Ids = ReadonlyMap<string, string>;

/** Of a file or link; another one after each change, unless two changes follow each other within a moment. */
const stampOf = (at: string, { name, stat: { ino, size, mtimeNs, ctimeNs } }: WorkspaceEntry) =>
  [ino, size, mtimeNs, ctimeNs, path.join(at, name)].join(' ');
/** At most so long, on any file system. */
const MOMENT_MS = 2_000;

/** Stores the contents of files and links whose stamps are not known. */
async function contentIds(folder: string, { root, folders }: Workspace, signal: AbortSignal): Promise<Ids> {
  const ids = new Map(await readStamps(stampsIn(folder)));
  await unfinished(folder, async (copies) => {
    await mkdir(copies);
    const args = ['hash-object', '-w', '--no-filters', '--stdin-paths'];
    await using hash = new GitCommand(repositoryIn(folder), args, signal);
    const asked: string[] = [];
    for (const { path: at, entries } of folders) {
      const changed = entries.filter((entry) => !entry.stat.isDirectory() && !ids.has(stampOf(at, entry)));
      if (changed.length === 0) continue;
      await using source = await folderInside(root, at);
      for (const entry of changed) {
        signal.throwIfAborted();
        // Git reads a copy: it would follow a link that somebody puts in the file's place.
        const copy = path.join(copies, String(asked.push(stampOf(at, entry))));
        if (entry.stat.isFile()) await source.copy(entry.name, copy, mostBytes(entry));
        else await writeFile(copy, await source.readLink(entry.name));
        hash.ask(`${copy}\n`);
      }
    }
    for (const stamp of asked) ids.set(stamp, await hash.line());
  });
  return ids;
}

async function readStamps(file: string): Promise<Ids> {
  try {
    return new Map(JSON.parse(await readFile(file, 'utf8')) as [string, string][]);
  } catch {
    // The first state, or the file of a disk that was full: all contents are read.
    return new Map();
  }
}

/** What the next state need not read again. */
function stampsToKeep(folders: readonly WorkspaceFolder[], ids: Ids, now: number): string {
  const stamps = folders.flatMap(({ path: at, entries }) =>
    entries.filter(({ stat }) => Number(stat.ctimeMs) < now - MOMENT_MS).map((entry) => stampOf(at, entry)),
  );
  return JSON.stringify(stamps.flatMap((stamp) => (ids.has(stamp) ? [[stamp, ids.get(stamp)]] : [])));
}

/** @returns the id of the whole workspace's tree */
async function writeTree(
  repository: string,
  folders: readonly WorkspaceFolder[],
  ids: Ids,
  signal: AbortSignal,
): Promise<string> {
  await using mktree = new GitCommand(repository, ['mktree', '-z', '--batch'], signal);
  const trees = new Map<string, string>();
  // What is in a folder comes before it.
  for (const { path: at, entries } of folders.toReversed()) {
    const lines = entries.map((entry) => {
      const { name, stat } = entry;
      const [type, id] = stat.isDirectory()
        ? ['tree', trees.get(path.join(at, name))]
        : ['blob', ids.get(stampOf(at, entry))];
      return `${stat.mode.toString(8)} ${type} ${id}\t${name}\0`;
    });
    mktree.ask(`${lines.join('')}\0`);
    trees.set(at, await mktree.line());
  }
  return trees.get('.') ?? '';
}

/** Writes what is in a tree into a new folder. */
async function readTree(objects: GitCommand, tree: string, into: string): Promise<void> {
  // In the order of the answers. Grows meanwhile.
  const asked = [{ target: into, mode: constants.S_IFDIR | 0o777, id: tree }];
  objects.ask(`${tree}\n`);
  for (const { target, mode } of asked) {
    const content = await nextContent(objects);
    switch (mode & constants.S_IFMT) {
      case constants.S_IFDIR:
        await mkdir(target);
        for (const entry of entriesOf(content)) {
          objects.ask(`${entry.id}\n`);
          asked.push({ ...entry, target: path.join(target, entry.name) });
        }
        break;
      case constants.S_IFLNK:
        await symlink(content, target);
        break;
      default:
        await writeFile(target, content);
        await chmod(target, mode & 0o777);
    }
  }
  // Not before: nothing can be written into a folder that is read-only.
  for (const { target, mode } of asked) {
    if ((mode & constants.S_IFMT) === constants.S_IFDIR) await chmod(target, mode & 0o7777);
  }
}

/** Of a SHA-1. */
const ID_BYTES = 20;

/** The entries of a tree, as git stores it: mode, name and the bytes of the id. */
function* entriesOf(tree: Buffer): Generator<{ mode: number; name: string; id: string }> {
  for (let at = 0; at < tree.length;) {
    const [space, nul] = [tree.indexOf(' ', at), tree.indexOf(0, at)];
    const end = nul + 1 + ID_BYTES;
    const mode = Number.parseInt(tree.toString('latin1', at, space), 8);
    yield { mode, name: tree.toString('utf8', space + 1, nul), id: tree.toString('hex', nul + 1, end) };
    at = end;
  }
}

async function nextContent(objects: GitCommand): Promise<Buffer> {
  const header = await objects.line();
  const [id, , size] = header.split(' ');
  if (size === undefined) throw new Error(`the content ${id} is lost`);
  const content = await objects.bytes(Number(size));
  await objects.line();
  return content;
}
