// Whether a workspace still is as somebody has left it: files that exist, and things that are in them.
import { constants } from 'node:fs';
import path from 'node:path';
import { type Folder, folderInside } from './open.ts';
import { MAX_PATH, pathFault } from './paths.ts';

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

/** Files that are walked, named ones aside, and folders. */
const MAX_FILES = 5_000;
const MAX_FOLDERS = 5_000;
const MAX_FILE_BYTES = 1024 ** 2;
/** Things that are looked for. */
const MAX_THINGS = 2_000;
/** What a search may cost, in characters that are searched: a few seconds of CPU. The others are in the same unit. */
const MAX_COST = 1e9;
const COMPARISON_COST = 100;
const HIT_COST = 50;
/** Of a character that is folded. */
const FOLD_COST = 5;
/** Of opening a file, and each folder on the way. */
const OPEN_COST = 30_000;
/** Of an entry of a folder. */
const ENTRY_COST = 500;
/** Characters of a longer text that are looked for first: for all of them V8's indexOf may take the product of both lengths. */
const MAX_HEAD = 200;
/** Folders that nobody has written; and the export, which names what is looked for. */
const NOT_READ: ReadonlySet<string> = new Set(['.git', 'node_modules', '.planning']);

/**
 * Checks what somebody has left in a workspace. Links are not followed. A workspace that does not exist has nothing. What has not
 * been found when the search reaches a limit is not a mismatch.
 */
export async function checkLeftBehind(root: string, { files, implementations }: LeftBehind): Promise<Mismatch[]> {
  const missing: Mismatch[] = [];
  const search = new Search(root);
  for (const entry of files) {
    const problem = await search.problem(entry);
    if (problem !== undefined) missing.push({ kind: 'file', entry, problem });
  }
  const wanted: { entry: string; things: Thing[] }[] = [];
  for (const entry of implementations) wanted.push({ entry, things: await thingsOf(search, entry) });
  const lost = await lostOf(search, wanted.flatMap(({ things }) => things).slice(0, MAX_THINGS));
  for (const { entry, things } of wanted) {
    const first = things.find((each) => lost.has(each));
    if (first !== undefined) missing.push({ kind: 'implementation', entry, problem: `not found: ${first.text}` });
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
  isIn(content: Content): boolean;
}

const QUOTED = /`([^`]+)`/g;
const SYMBOL = /^[\w$]+(?:[.#:]+[\w$]+)*(?:\(\))?$/;
const PATH = /^[^\s:#]+(?:\/[^\s:#]+|\.[A-Za-z0-9]+)$/;
const IN_FILE = /^([^\s:#]+)(?:#|:\s*)(\S.*)$/s;

function isPathLike(text: string): boolean {
  // PATH may take the square of the length.
  return text.length <= MAX_PATH && PATH.test(text);
}

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
  if (file === undefined || rest === undefined || !isPathLike(file)) return [thing(entry)];
  return [{ ...thing(rest), isPath: false, file }];
}

/** The same in a workspace, where `Node.js: streams` is a phrase unless there is such a file. */
async function thingsOf(search: Search, entry: string): Promise<Thing[]> {
  const things = implementation(entry);
  const file = things[0]?.file;
  const isProse = file !== undefined && /\s/.test(entry.trim()) && (await search.problem(file)) !== undefined;
  return isProse ? [thing(entry)] : things;
}

function thing(text: string): Thing {
  const trimmed = text.trim();
  const isPath = isPathLike(trimmed);
  if (!SYMBOL.test(trimmed)) {
    const phrase = fold(trimmed);
    return { text: trimmed, isPath, isIn: (content) => isFound(placesOf(content.folded, phrase, content.spend)) };
  }
  const symbol = trimmed.replace(/\(\)$/, '');
  return { text: trimmed, isPath, isIn: (content) => isFound(wordsOf(content, symbol)) };
}

function fold(text: string): string {
  // Most white space is single spaces, which stay.
  return text.toLowerCase().replaceAll(/[^\S ]\s*| \s+/g, ' ');
}

const WORD = /[\w$]/;

/** Where a symbol is in a text as a whole word. */
function* wordsOf({ text, spend }: Content, word: string): Generator<number> {
  for (const at of placesOf(text, word, spend)) {
    const [before, after] = [text[at - 1] ?? ' ', text[at + word.length] ?? ' '];
    if (!WORD.test(before) && !WORD.test(after)) yield at;
  }
}

/** Where a text is in another one, while that may cost more. */
function* placesOf(text: string, wanted: string, spend: Spend): Generator<number> {
  const head = wanted.slice(0, MAX_HEAD);
  const cost = HIT_COST + wanted.length;
  for (let at = text.indexOf(head); at >= 0 && spend(cost); at = text.indexOf(head, at + 1)) {
    if (text.startsWith(wanted, at)) yield at;
  }
}

function isFound(places: Generator<number>): boolean {
  return places.next().done !== true;
}

/** False: the cost of this search is reached. */
type Spend = (cost: number) => boolean;

/** The text of a file. */
class Content {
  readonly text: string;
  readonly spend: Spend;
  private lazy: string | undefined;

  constructor(text: string, spend: Spend) {
    this.text = text;
    this.spend = spend;
  }

  get folded(): string {
    if (this.lazy === undefined) this.spend(this.text.length * FOLD_COST);
    return (this.lazy ??= fold(this.text));
  }
}

async function fileProblem(root: string, file: string): Promise<string | undefined> {
  try {
    await using folder = await folderInside(root, path.dirname(file));
    const stat = await folder.stat(path.basename(file));
    return stat.isSymbolicLink() ? 'it is a link' : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'it does not exist';
    return code === 'ELOOP' ? 'its path contains a link' : `it cannot be read (${code ?? 'unknown error'})`;
  }
}

/** Those of the things that are not in the workspace, and not those that a limit leaves open. */
async function lostOf(search: Search, things: readonly Thing[]): Promise<Set<Thing>> {
  const inFiles = new Map<string, Set<Thing>>();
  const anywhere = new Set<Thing>();
  for (const each of things) {
    if (each.file !== undefined) inFiles.set(each.file, (inFiles.get(each.file) ?? new Set()).add(each));
    else if (!each.isPath || (await search.problem(each.text)) !== undefined) anywhere.add(each);
  }
  const lost = new Set<Thing>();
  for (const [file, wanted] of inFiles) {
    await search.read(file, wanted);
    if (!search.isCutOff) for (const each of wanted) lost.add(each);
  }
  let [files, folders] = [0, 0];
  for await (const { folder, name } of search.places()) {
    if (anywhere.size === 0) break;
    if (name === undefined) folders += 1;
    else files += 1;
    if (files > MAX_FILES || folders > MAX_FOLDERS || search.isCutOff) return lost;
    if (folder !== undefined && name !== undefined) await search.readIn(folder, name, anywhere);
  }
  return search.isCutOff ? lost : lost.union(anywhere);
}

class Search {
  private readonly root: string;
  private cost = 0;

  constructor(root: string) {
    this.root = root;
  }

  get isCutOff(): boolean {
    return this.cost > MAX_COST;
  }

  /** What is wrong with a file; undefined: it exists, or the search is cut off. */
  async problem(file: string): Promise<string | undefined> {
    return pathFault(file) ?? (this.opens(file) ? fileProblem(this.root, file) : undefined);
  }

  /** Reads a file, and removes from the things those that are in it. */
  async read(file: string, things: Set<Thing>): Promise<void> {
    if (pathFault(file) !== undefined) return;
    await using folder = await this.folder(path.dirname(file));
    if (folder !== undefined) await this.readIn(folder, path.basename(file), things);
  }

  /** The same in an open folder. */
  async readIn(folder: Folder, name: string, things: Set<Thing>): Promise<void> {
    const text = this.spend(OPEN_COST) ? await contentOf(folder, name) : undefined;
    if (text === undefined) return;
    const content = new Content(text, this.spend);
    for (const each of things) {
      if (!this.spend(COMPARISON_COST + text.length)) return;
      if (each.isIn(content)) things.delete(each);
    }
  }

  /** Each folder, which is open until the next one, and then its files. Undefined: it cannot be opened. */
  async *places(): AsyncGenerator<{ folder: Folder | undefined; name?: string }> {
    const folders = ['.'];
    // It grows meanwhile.
    for (const at of folders) {
      await using folder = await this.folder(at);
      yield { folder };
      const entries = await entriesOf(folder);
      this.spend(entries.length * ENTRY_COST);
      for (const entry of entries) {
        const place = path.join(at, entry.name);
        if (entry.isDirectory() && !NOT_READ.has(entry.name)) folders.push(place);
        if (entry.isFile() && pathFault(place) === undefined) yield { folder, name: entry.name };
      }
    }
  }

  private async folder(place: string): Promise<Folder | undefined> {
    return this.opens(place) ? folderInside(this.root, place).catch(() => undefined) : undefined;
  }

  /** Spends what opening a path costs: it is done from the root, folder by folder. */
  private opens(place: string): boolean {
    return this.spend(place.split(/[\\/]/).length * OPEN_COST);
  }

  private readonly spend: Spend = (cost) => (this.cost += cost) <= MAX_COST;
}

async function entriesOf(folder: Folder | undefined) {
  try {
    return ((await folder?.entries()) ?? []).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    // Removed meanwhile, or not readable.
    return [];
  }
}

/** The text of a file; undefined: it is too long, binary, or gone. */
async function contentOf(folder: Folder, name: string): Promise<string | undefined> {
  try {
    await using handle = await folder.open(name, constants.O_RDONLY, 0);
    const stat = await handle.stat();
    if (!stat.isFile() || stat.size > MAX_FILE_BYTES) return undefined;
    const bytes = await handle.readFile();
    // Decoding a picture costs more than searching a text.
    return bytes.includes(0) ? undefined : bytes.toString('utf8');
  } catch {
    return undefined;
  }
}
