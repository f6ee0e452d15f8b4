// Whether a workspace still is as somebody has left it: files that exist, and things that are in them.
import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { folderInside, openInside } from './open.ts';
import { pathFault } from './paths.ts';

/** What somebody has left. */
export interface LeftBehind {
  /** Paths relative to the workspace. */
  files: readonly string[];
  /** Files, symbols or phrases: `implementation` says how they are matched. */
  implementations: readonly string[];
}

/** An entry that is not there. */
export interface Mismatch {
  kind: 'file' | 'implementation';
  entry: string;
  problem: string;
}

const MAX_FILES = 5_000;
const MAX_FILE_BYTES = 1024 ** 2;
/** Bytes times things that are looked for: about a second of CPU. */
const MAX_COMPARED = 1e9;
/** Folders that nobody has written. */
const NOT_READ: ReadonlySet<string> = new Set(['.git', 'node_modules']);

/** Checks what somebody has left in a workspace. Links are not followed. A workspace that does not exist has nothing. */
export async function checkLeftBehind(root: string, { files, implementations }: LeftBehind): Promise<Mismatch[]> {
  const missing: Mismatch[] = [];
  for (const entry of files) {
    const problem = await fileProblem(root, entry);
    if (problem !== undefined) missing.push({ kind: 'file', entry, problem });
  }
  const wanted = implementations.map((entry) => ({ entry, things: implementation(entry) }));
  const found = await search(
    root,
    wanted.flatMap(({ things }) => things),
  );
  for (const { entry, things } of wanted) {
    const lost = things.find((each) => !found.has(each));
    if (lost !== undefined) missing.push({ kind: 'implementation', entry, problem: `not found: ${lost.text}` });
  }
  return missing;
}

/** Something to look for. */
export interface Thing {
  /** As in the entry. */
  text: string;
  /** It may be the path of a file. */
  isPath: boolean;
  /** Only this file is read. */
  file?: string;
  isIn(content: string, folded: () => string): boolean;
}

const QUOTED = /`([^`]+)`/g;
const SYMBOL = /^[\w$]+(?:[.#:]+[\w$]+)*(?:\(\))?$/;
const PATH = /^[^\s:#]+(?:\/[^\s:#]+|\.[A-Za-z0-9]+)$/;
const IN_FILE = /^([^\s:#]+(?:\/[^\s:#]+|\.[A-Za-z0-9]+))(?:#|:\s*)(\S.*)$/s;

/**
 * What an entry names. All of it must be there:
 *
 * - each word in backquotes, if there are any: the rest of the text is for people;
 * - else `path#thing` or `path: thing`, a symbol or a phrase in that file;
 * - else the path of a file, or a symbol, which is found as a whole word;
 * - else a phrase, which is found whatever its case and white space.
 */
export function implementation(entry: string): Thing[] {
  const quoted = [...entry.matchAll(QUOTED)].map(([, text = '']) => thing(text));
  if (quoted.length > 0) return quoted;
  const [, file, rest] = IN_FILE.exec(entry.trim()) ?? [];
  if (file === undefined || rest === undefined) return [thing(entry)];
  return [{ ...thing(rest), isPath: false, file }];
}

function thing(text: string): Thing {
  const trimmed = text.trim();
  const isPath = PATH.test(trimmed);
  if (!SYMBOL.test(trimmed)) {
    const phrase = fold(trimmed);
    return { text: trimmed, isPath, isIn: (_, folded) => folded().includes(phrase) };
  }
  const symbol = trimmed.replace(/\(\)$/, '');
  return { text: trimmed, isPath, isIn: (content) => hasWord(content, symbol) };
}

function fold(text: string): string {
  return text.toLowerCase().replaceAll(/\s+/g, ' ');
}

const WORD = /[\w$]/;

function hasWord(content: string, word: string): boolean {
  for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1)) {
    const [before, after] = [content[at - 1] ?? ' ', content[at + word.length] ?? ' '];
    if (!WORD.test(before) && !WORD.test(after)) return true;
  }
  return false;
}

/** What is wrong with a file; undefined: it exists. */
async function fileProblem(root: string, entry: string): Promise<string | undefined> {
  const fault = pathFault(entry);
  if (fault !== undefined) return fault;
  try {
    await using folder = await folderInside(root, path.dirname(entry));
    const stat = await folder.stat(path.basename(entry));
    return stat.isSymbolicLink() ? 'it is a link' : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'it does not exist';
    return code === 'ELOOP' ? 'its path contains a link' : `it cannot be read (${code ?? 'unknown error'})`;
  }
}

/** Those of the things that are in the workspace. */
async function search(root: string, things: readonly Thing[]): Promise<Set<Thing>> {
  const found = new Set<Thing>();
  for (const each of things) if (each.isPath && (await fileProblem(root, each.text)) === undefined) found.add(each);
  let compared = 0;
  if (found.size === things.length) return found;
  for await (const file of filesIn(root)) {
    const left = things.filter((each) => !found.has(each) && (each.file === undefined || isSame(each.file, file)));
    if (left.length === 0) continue;
    const content = await contentOf(root, file);
    if (content === undefined) continue;
    let folded: string | undefined;
    for (const each of left) if (each.isIn(content, () => (folded ??= fold(content)))) found.add(each);
    compared += content.length * left.length;
    if (found.size === things.length || compared > MAX_COMPARED) break;
  }
  return found;
}

function isSame(one: string, other: string): boolean {
  return path.normalize(one) === path.normalize(other);
}

/** Relative paths of files, folder by folder, at most 5,000. */
async function* filesIn(root: string): AsyncGenerator<string> {
  const folders = ['.'];
  let count = 0;
  for (let at = folders.shift(); at !== undefined; at = folders.shift()) {
    for (const entry of await entriesOf(root, at)) {
      const place = path.join(at, entry.name);
      if (entry.isDirectory() && !NOT_READ.has(entry.name)) folders.push(place);
      if (!entry.isFile()) continue;
      if ((count += 1) > MAX_FILES) return;
      yield place;
    }
  }
}

async function entriesOf(root: string, folder: string) {
  try {
    await using opened = await folderInside(root, folder);
    return (await opened.entries()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    // Removed meanwhile, or not readable.
    return [];
  }
}

/** The text of a file; undefined: it is too long, binary, or gone. */
async function contentOf(root: string, file: string): Promise<string | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await openInside(root, file, constants.O_RDONLY);
    if ((await handle.stat()).size > MAX_FILE_BYTES) return undefined;
    const text = await handle.readFile('utf8');
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  } finally {
    await handle?.close();
  }
}
