import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { cleanText, headOf } from '../domain/text.ts';

/** In this order per folder. */
const NAMES = ['AGENTS.md', 'CLAUDE.md', 'CONTEXT.md'];

/** How much of a file enters the prompt. */
const MAX_BYTES = 64 * 1024;

interface CachedFile {
  stamp: string;
  /** The file's real path, by which one file under two names is read once. */
  real: string;
  text: string;
}

/** Files by path; a file is read again when its stamp changes. */
const cache = new Map<string, CachedFile>();
const MAX_CACHED = 2_000;

/** Without O_NONBLOCK, opening a pipe would block the whole process until a writer opens it. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const BY_DESCRIPTOR = existsSync('/proc/self/fd');

/**
 * The instruction files from `boundary` down to `workspaceRoot`, nearest last, as a section of the prompt; empty without
 * any. Links that lead out of the first folder below the boundary, which belongs to one user, are ignored. Synchronous,
 * because a few stats take microseconds, and the thread pool may take milliseconds.
 */
export function projectInstructions(workspaceRoot: string, boundary: string): string {
  const seen = new Set<string>();
  const blocks: string[] = [];
  const folders = foldersBetween(boundary, workspaceRoot);
  for (const folder of folders) {
    const home = folder === boundary ? boundary : (folders[1] ?? workspaceRoot);
    for (const name of NAMES) {
      const file = read(path.join(folder, name), home);
      if (!file || seen.has(file.real)) continue;
      seen.add(file.real);
      const label = path.relative(workspaceRoot, path.join(folder, name)).split(path.sep).join('/');
      blocks.push(`## ${label}\n\n${file.text}`);
    }
  }
  return blocks.length > 0 ? ['# Project instructions', ...blocks].join('\n\n') : '';
}

/** All folders from `boundary` to `workspaceRoot`, both included; only the latter if it is not below the former. */
export function foldersBetween(boundary: string, workspaceRoot: string): string[] {
  const relative = path.relative(boundary, workspaceRoot);
  if (relative === '' || relative.startsWith('..') || path.isAbsolute(relative)) return [workspaceRoot];
  const names = relative.split(path.sep);
  return [boundary, ...names.map((_name, at) => path.join(boundary, ...names.slice(0, at + 1)))];
}

/** Undefined for missing, unreadable and non-regular files, and for links out of `home`: no turn fails because of them. */
function read(file: string, home: string): CachedFile | undefined {
  try {
    const stat = statSync(file, { throwIfNoEntry: false });
    if (!stat?.isFile()) return undefined;
    const stamp = `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
    const cached = cache.get(file);
    return cached?.stamp === stamp ? cached : readAgain(file, home, stamp);
  } catch {
    return undefined;
  }
}

function readAgain(file: string, home: string, stamp: string): CachedFile | undefined {
  const descriptor = openSync(file, FLAGS);
  try {
    const opened = fstatSync(descriptor);
    // The path of the opened file, even if a link on its path has changed since.
    const real = realpathSync(BY_DESCRIPTOR ? `/proc/self/fd/${descriptor}` : file);
    const isOurs = isInside(real, realpathSync(home)) || isInside(real, realpathSync(path.dirname(file)));
    if (!opened.isFile() || !isOurs) return undefined;
    const entry = { stamp, real, text: textOf(descriptor, opened) };
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(file, entry);
    return entry;
  } finally {
    closeSync(descriptor);
  }
}

function isInside(file: string, folder: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '' && !relative.startsWith('..') && !path.isAbsolute(relative);
}

/** The beginning of a file. */
function textOf(descriptor: number, { size }: Stats): string {
  const bytes = Buffer.alloc(MAX_BYTES + 1);
  const length = readSync(descriptor, bytes, 0, bytes.length, 0);
  const text = cleanText(bytes.toString('utf8', 0, length)).trim();
  return length <= MAX_BYTES
    ? text
    : `${headOf(text, MAX_BYTES)}\n[The file is ${size} bytes long; the rest is left out.]`;
}
