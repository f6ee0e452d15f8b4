import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { GitCommand } from './git-command.ts';
import { unfinished } from './snapshot-store.ts';

/** The repository in a session's folder of snapshots. */
export const repositoryIn = (folder: string): string => path.join(folder, 'git');
/** Its refs, each a file with the id of a tree. */
export const statesIn = (folder: string): string => path.join(repositoryIn(folder), 'refs/snapshots');

/** Git collects what no state refers to any more at an age at which no hook can still be about to refer to it. */
const CONFIG = `[core]
	repositoryformatversion = 0
	bare = true
	hooksPath = ${os.devNull}
	compression = 1
[gc]
	auto = 256
	autoPackLimit = 3
	autoDetach = false
	packRefs = false
	pruneExpire = 10.minutes.ago
[pack]
	threads = 1
	window = 0
`;

/** Makes the repository. Writes its configuration anew, so that nobody else has. @returns the time by the file system's clock */
export async function prepare(folder: string): Promise<number> {
  const repository = repositoryIn(folder);
  const config = path.join(repository, 'config');
  await mkdir(path.join(repository, 'objects'), { recursive: true });
  await mkdir(statesIn(folder), { recursive: true });
  await put(folder, path.join(repository, 'HEAD'), 'ref: refs/heads/none\n');
  await put(folder, config, CONFIG);
  return (await stat(config)).mtimeMs;
}

/** Writes a file at once: a collection may be reading it. */
export const put = (folder: string, file: string, text: string): Promise<void> =>
  unfinished(folder, async (written) => {
    await writeFile(written, text);
    await rename(written, file);
  });

/** So long a snapshot waits at most for a collection, which then goes on alone. */
const COLLECT_MS = 1_000;
const MAX_COLLECT_MS = 600_000;

/** Deletes what no state refers to any more. Git runs one collection of a repository at a time. */
export async function collect(folder: string): Promise<void> {
  const gc = new GitCommand(repositoryIn(folder), ['gc', '--auto', '--quiet'], AbortSignal.timeout(MAX_COLLECT_MS));
  const ended = gc.end().catch(() => repair(folder));
  await Promise.race([ended, delay(COLLECT_MS, undefined, { ref: false })]);
}

const OBJECT_OR_STATE = /^[0-9a-f-]{36,38}$/;

/** Deletes the empty files that a crash of the machine leaves: git takes an object for stored if it has a file. Does not throw. */
export async function repair(folder: string): Promise<void> {
  try {
    for (const part of [path.join(repositoryIn(folder), 'objects'), statesIn(folder)]) {
      for (const name of await readdir(part, { recursive: true })) {
        const file = path.join(part, name);
        if (OBJECT_OR_STATE.test(path.basename(name)) && (await stat(file)).size === 0) await rm(file);
      }
    }
  } catch {
    // Deleted meanwhile, or not readable: what called this reports its own failure.
  }
}
