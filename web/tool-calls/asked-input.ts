import { isRecord } from '../lib/record.ts';

/** What a tool call is about to do, as far as its input tells. */
export type AskedInput = (
  | { kind: 'write'; path: string; content: string }
  | { kind: 'edit'; path: string; before: string; after: string }
  | { kind: 'command'; command: string }
  | { kind: 'other' }
) & {
  /** What of the input is not in the other members. */
  rest: Record<string, unknown>;
};

const PATHS = ['path', 'file_path', 'filePath', 'filename'];
const CONTENTS = ['content', 'contents'];
const EDITS = [
  ['old_string', 'new_string'],
  ['oldString', 'newString'],
  ['old_str', 'new_str'],
  ['old_text', 'new_text'],
] as const;
const COMMANDS = ['command', 'cmd'];

/** Reads the input of a call by the names that tools for files and shells give to their fields. */
export function readInput(input: unknown): AskedInput {
  const fields = isRecord(input) ? input : { input };
  const isText = (name: string) => typeof fields[name] === 'string';
  const without = (...names: string[]) =>
    Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));
  const path = PATHS.find(isText);
  if (path !== undefined) {
    const file = String(fields[path]);
    const edit = EDITS.find((names) => names.every(isText));
    if (edit !== undefined) {
      const [before, after] = edit;
      const texts = { before: String(fields[before]), after: String(fields[after]) };
      return { kind: 'edit', path: file, ...texts, rest: without(path, before, after) };
    }
    const content = CONTENTS.find(isText);
    if (content !== undefined) {
      return { kind: 'write', path: file, content: String(fields[content]), rest: without(path, content) };
    }
  }
  for (const name of COMMANDS) {
    const command = commandOf(fields[name]);
    if (command !== undefined) return { kind: 'command', command, rest: without(name) };
  }
  return { kind: 'other', rest: fields };
}

/** A command line; the words of a list are quoted if they would look like several. */
function commandOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value) || value.length === 0 || !value.every((word) => typeof word === 'string')) return undefined;
  return value.map((word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : JSON.stringify(word))).join(' ');
}
