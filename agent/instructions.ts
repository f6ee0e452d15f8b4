import { readFileSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { byteLength, cleanText, headOf } from '../domain/text.ts';

/** In the order in which a folder's are read. */
const NAMES = ['AGENTS.md', 'CLAUDE.md', 'CONTEXT.md'];

/** Most of a file that goes into the prompt, in bytes. */
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

/**
 * The instruction files from `boundary` inward to `workspaceRoot`, nearest last, as a section of the prompt; empty
 * without any. A link that leads out of the boundary is left out. Reads are synchronous on purpose: a few stats take some
 * microseconds, where the thread pool may take milliseconds.
 */
export function projectInstructions(workspaceRoot: string, boundary: string): string {
  const seen = new Set<string>();
  const blocks: string[] = [];
  for (const folder of foldersInward(workspaceRoot, boundary)) {
    for (const name of NAMES) {
      const file = read(path.join(folder, name), boundary);
      if (!file || seen.has(file.real)) continue;
      seen.add(file.real);
      const label = path.relative(boundary, path.join(folder, name)).split(path.sep).join('/');
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

function read(file: string, boundary: string): Known | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (!stat?.isFile()) return undefined;
  const stamp = `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
  const before = known.get(file);
  if (before?.stamp === stamp) return before;
  const real = realpathSync(file);
  if (!isInside(real, realpathSync(boundary)) && !isInside(real, realpathSync(path.dirname(file)))) return undefined;
  const now = { stamp, real, text: capped(cleanText(readFileSync(real, 'utf8')).trim()) };
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(file, now);
  return now;
}

function isInside(file: string, folder: string): boolean {
  const way = path.relative(folder, file);
  return way !== '' && !way.startsWith('..') && !path.isAbsolute(way);
}

function capped(text: string): string {
  const bytes = byteLength(text);
  return bytes <= MAX_BYTES
    ? text
    : `${headOf(text, MAX_BYTES)}\n[The file is ${bytes} bytes long; the rest is left out.]`;
}
