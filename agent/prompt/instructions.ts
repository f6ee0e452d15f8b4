import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { cleanText, headOf, textOfUtf8 } from '../../domain/text.ts';

/** In this order per folder. */
const NAMES = ['AGENTS.md', 'CLAUDE.md', 'CONTEXT.md'];

/** How much of a file enters the prompt. */
const MAX_BYTES = 64 * 1024;

/**
 * Instruction files by path, relative to the boundary, each with a stamp that changes whenever the file is written, moved or
 * replaced: inode, size, and the times of modification and of change in nanoseconds. No program can set the last one.
 */
export type Stamps = Readonly<Record<string, string>>;

/** Of these files those that tools wrote. */
export type WrittenByTools = (found: Stamps) => Promise<ReadonlySet<string>>;

interface InstructionFile {
  /** Its real path, by which one file under two names is used once. */
  real: string;
  stamp: string;
  text: string;
}

/** Files by path; a file is read again when its stamp changes. */
const cache = new Map<string, InstructionFile>();
const MAX_CACHED = 2_000;

/** Without O_NONBLOCK, opening a pipe would block the whole process until a writer opens it. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const BY_DESCRIPTOR = existsSync('/proc/self/fd');

/**
 * The instruction files from `boundary` down to `workspaceRoot`, nearest last, as a section of the prompt; empty without
 * any. Links that lead out of the first folder below the boundary, which belongs to one user, are ignored, and so are the
 * files that tools wrote. Reads synchronously, because a few stats take microseconds, and the thread pool may take milliseconds.
 */
export async function projectInstructions(
  workspaceRoot: string,
  boundary: string,
  writtenByTools: WrittenByTools = () => Promise.resolve(new Set()),
): Promise<string> {
  const folders = foldersBetween(boundary, workspaceRoot);
  const found = candidates(folders).flatMap((file) => {
    const folder = path.dirname(file);
    const read = readFile(file, homeOf(folder, folders));
    return read ? [{ ...read, file, name: nameIn(boundary, file) }] : [];
  });
  if (found.length === 0) return '';
  const written = await writtenByTools(Object.fromEntries(found.map(({ name, stamp }) => [name, stamp])));
  const seen = new Set<string>();
  const blocks: string[] = [];
  for (const { file, name, real, text } of found) {
    if (written.has(name) || seen.has(real)) continue;
    seen.add(real);
    blocks.push(`## ${nameIn(workspaceRoot, file)}\n\n${text}`);
  }
  return blocks.length > 0 ? ['# Project instructions', ...blocks].join('\n\n') : '';
}

/** The stamps of the instruction files that `projectInstructions` would find now. */
export function instructionStamps(workspaceRoot: string, boundary: string): Stamps {
  const stamps: Record<string, string> = {};
  for (const file of candidates(foldersBetween(boundary, workspaceRoot))) {
    const stat = statOf(file);
    if (stat !== undefined) stamps[nameIn(boundary, file)] = stampOf(stat);
  }
  return stamps;
}

/** The paths of files that are in only one of two lists, or were written in between. */
export function changedStamps(before: Stamps, after: Stamps): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
}

/** All folders from `boundary` to `workspaceRoot`, both included; only the latter if it is not below the former. */
export function foldersBetween(boundary: string, workspaceRoot: string): string[] {
  const relative = path.relative(boundary, workspaceRoot);
  if (relative === '' || relative.startsWith('..') || path.isAbsolute(relative)) return [workspaceRoot];
  const names = relative.split(path.sep);
  return [boundary, ...names.map((_name, at) => path.join(boundary, ...names.slice(0, at + 1)))];
}

/** Where what is in one of these folders may lead: the first below the boundary, which belongs to one user. */
export function homeOf(folder: string, folders: readonly string[]): string {
  return folder === folders[0] ? folder : (folders[1] ?? folder);
}

function candidates(folders: readonly string[]): string[] {
  return folders.flatMap((folder) => NAMES.map((name) => path.join(folder, name)));
}

function nameIn(folder: string, file: string): string {
  return path.relative(folder, file).split(path.sep).join('/');
}

/** Undefined for missing, unreadable and non-regular files, and for links out of `home`: no turn fails because of them. */
function readFile(file: string, home: string): InstructionFile | undefined {
  const stat = statOf(file);
  if (stat === undefined) return undefined;
  const cached = cache.get(file);
  if (cached?.stamp === stampOf(stat)) return cached;
  try {
    return readAgain(file, home);
  } catch {
    return undefined;
  }
}

function readAgain(file: string, home: string): InstructionFile | undefined {
  const descriptor = openSync(file, FLAGS);
  try {
    const opened = fstatSync(descriptor, { bigint: true });
    // The path of the opened file, even if a link on its path has changed since.
    const real = realpathSync(BY_DESCRIPTOR ? `/proc/self/fd/${descriptor}` : file);
    const isOurs = isInside(real, realpathSync(home)) || isInside(real, realpathSync(path.dirname(file)));
    if (!opened.isFile() || !isOurs) return undefined;
    const stamp = stampOf(opened);
    const entry = { stamp, real, text: textOf(descriptor, Number(opened.size)) };
    // Written meanwhile: the stamp is not that of the text.
    if (stampOf(fstatSync(descriptor, { bigint: true })) !== stamp) return undefined;
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(file, entry);
    return entry;
  } finally {
    closeSync(descriptor);
  }
}

/** Undefined unless a regular file is there, or behind a link. */
function statOf(file: string): BigIntStats | undefined {
  try {
    const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
    return stat?.isFile() === true ? stat : undefined;
  } catch {
    return undefined;
  }
}

/** Changes whenever the file is written, moved or replaced. */
export function stampOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [ino, size, mtimeNs, ctimeNs].join(':');
}

export function isInside(file: string, folder: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '' && !relative.startsWith('..') && !path.isAbsolute(relative);
}

/** The beginning of a file of `size` bytes, or what is wrong with it. */
function textOf(descriptor: number, size: number): string {
  const bytes = Buffer.alloc(MAX_BYTES + 1);
  const length = readSync(descriptor, bytes, 0, bytes.length, 0);
  const cut = length > MAX_BYTES;
  const text = textOfUtf8(bytes.subarray(0, length), { cut });
  if (text === undefined) return '[The file is left out: it is not UTF-8.]';
  const clean = cleanText(text).trim();
  return cut ? `${headOf(clean, MAX_BYTES)}\n[The file is ${size} bytes long; the rest is left out.]` : clean;
}
