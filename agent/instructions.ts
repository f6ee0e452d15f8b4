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

/** File names, in the order in which they are read per folder. */
const NAMES = ['AGENTS.md', 'CLAUDE.md', 'CONTEXT.md'];

/** Maximum part of a file in the prompt, in bytes. */
const MAX_BYTES = 64 * 1024;

interface Known {
  stamp: string;
  /** The file's real path, by which one file under two names is read once. */
  real: string;
  text: string;
}

/** What was read before, by path; a file is read again when its stamp changes. */
const known = new Map<string, Known>();
const MAX_KNOWN = 2_000;

/** Without O_NONBLOCK, opening a pipe would block the whole process until a writer opens it. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const BY_DESCRIPTOR = existsSync('/proc/self/fd');

/**
 * The instruction files from `boundary` inward to `workspaceRoot`, nearest last, as a section of the prompt; empty
 * without any. A link that leads out of the first folder below the boundary, which is one user's, is left out. Reads are
 * synchronous on purpose: a few stats take some microseconds, where the thread pool may take milliseconds.
 */
export function projectInstructions(workspaceRoot: string, boundary: string): string {
  const seen = new Set<string>();
  const blocks: string[] = [];
  const folders = foldersInward(workspaceRoot, boundary);
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

/** `boundary`, the folders below it on the way, and `workspaceRoot`; only the latter when it lies elsewhere. */
export function foldersInward(workspaceRoot: string, boundary: string): string[] {
  const way = path.relative(boundary, workspaceRoot);
  if (way === '') return [workspaceRoot];
  if (way.startsWith('..') || path.isAbsolute(way)) return [workspaceRoot];
  const names = way.split(path.sep);
  return [boundary, ...names.map((_name, at) => path.join(boundary, ...names.slice(0, at + 1)))];
}

/** Undefined for missing, unreadable or non-regular files, and for paths elsewhere: no turn fails because of them. */
function read(file: string, home: string): Known | undefined {
  try {
    const stat = statSync(file, { throwIfNoEntry: false });
    if (!stat?.isFile()) return undefined;
    const stamp = `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
    const before = known.get(file);
    return before?.stamp === stamp ? before : readAgain(file, home, stamp);
  } catch {
    return undefined;
  }
}

function readAgain(file: string, home: string, stamp: string): Known | undefined {
  const descriptor = openSync(file, FLAGS);
  try {
    const opened = fstatSync(descriptor);
    // Of what was opened, whatever a link leads to by now.
    const real = realpathSync(BY_DESCRIPTOR ? `/proc/self/fd/${descriptor}` : file);
    const isOurs = isInside(real, realpathSync(home)) || isInside(real, realpathSync(path.dirname(file)));
    if (!opened.isFile() || !isOurs) return undefined;
    const now = { stamp, real, text: textOf(descriptor, opened) };
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(file, now);
    return now;
  } finally {
    closeSync(descriptor);
  }
}

function isInside(file: string, folder: string): boolean {
  const way = path.relative(folder, file);
  return way !== '' && !way.startsWith('..') && !path.isAbsolute(way);
}

/** Reads only the beginning of a file. */
function textOf(descriptor: number, { size }: Stats): string {
  const bytes = Buffer.alloc(MAX_BYTES + 1);
  const there = readSync(descriptor, bytes, 0, bytes.length, 0);
  const text = cleanText(bytes.toString('utf8', 0, there)).trim();
  return there <= MAX_BYTES
    ? text
    : `${headOf(text, MAX_BYTES)}\n[The file is ${size} bytes long; the rest is left out.]`;
}
