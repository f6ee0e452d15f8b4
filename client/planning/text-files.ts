import { cleanText } from '../../domain/text.ts';
import { type FieldError, InvalidInputError } from '../../wire/input.ts';

/** Most bytes of all files of an import. */
export const MAX_PLANNING_BYTES = 16 * 1024 ** 2;
/** Most bytes of one of them: reading YAML of any length would hold up the host. */
const MAX_FILE_BYTES = 1024 ** 2;
export const MAX_FILES = 10_000;
/** The most lines that one answer names. */
const MOST_FAULTS = 1_000;

/** A file of an import, its path below `.planning/`. */
export interface RawFile {
  path: string;
  bytes: Uint8Array;
}

/** A file with its lines, without their ends; the first is number 1. */
export interface TextFile {
  path: string;
  text: string;
  lines: readonly string[];
}

/** The lines that an import could not read. */
export class Faults {
  private readonly errors: FieldError[] = [];
  private more = 0;

  /** @param line undefined: the whole file */
  add(path: string, line: number | undefined, expected: string): void {
    if (this.errors.length === MOST_FAULTS) this.more += 1;
    else this.errors.push({ field: line === undefined ? path : `${path} line ${line}`, expected });
  }

  /** @throws {InvalidInputError} naming all of them, if there are any */
  refuse(): void {
    if (this.errors.length === 0) return;
    const rest = { field: 'body', expected: `no further ${this.more} faults, which are not listed` };
    throw new InvalidInputError(this.more === 0 ? this.errors : [...this.errors, rest]);
  }
}

/** The texts of files by their paths. Lines may end in CR LF. */
export function textsOf(files: readonly RawFile[], faults: Faults): Map<string, TextFile> {
  const texts = new Map<string, TextFile>();
  for (const { path, bytes } of files) {
    if (!isRead(path)) continue;
    if (texts.has(path)) faults.add(path, undefined, 'one file with this path');
    else if (bytes.length > MAX_FILE_BYTES) faults.add(path, undefined, `at most ${MAX_FILE_BYTES} bytes`);
    else {
      const text = cleanText(decoded(path, bytes, faults)).replaceAll('\r\n', '\n');
      texts.set(path, { path, text, lines: text.split('\n') });
    }
  }
  return texts;
}

const READ = /^(?:STATE|\d+-\d+-(?:PLAN|SUMMARY)|(?:blockers|decisions)\/[^/]+)\.md$/;

/** Whether an import reads the file: STATE.md, plans, summaries, decisions and blockers. */
export function isRead(path: string): boolean {
  return READ.test(path) && !path.includes('/._');
}

const NEWLINE = 0x0a;

function decoded(path: string, bytes: Uint8Array, faults: Faults): string {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    return decoder.decode(bytes);
  } catch {
    let [from, line] = [0, 1];
    while (from < bytes.length) {
      const end = bytes.indexOf(NEWLINE, from);
      const to = end < 0 ? bytes.length : end;
      try {
        decoder.decode(bytes.subarray(from, to));
      } catch {
        faults.add(path, line, 'text in UTF-8');
      }
      [from, line] = [to + 1, line + 1];
    }
    return new TextDecoder().decode(bytes);
  }
}

/** A text on one line. */
export function inline(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ');
}

/** A name on one line, as `nameOfLine` reads it: as it is, or in quotes as JSON where `inline` would change it. */
export function lineOfName(name: string): string {
  if (name === inline(name) && name === nameOfLine(name)) return name;
  return JSON.stringify(name).replaceAll(/[^\S ]|\s(?=\s)/g, (space) => {
    return `\\u${space.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

export function nameOfLine(line: string): string {
  if (!line.startsWith('"')) return line;
  try {
    return cleanText(JSON.parse(line) as string);
  } catch {
    return line;
  }
}
