import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  LineCounter,
  parseDocument,
  Scalar,
  visit,
} from 'yaml';
import type { z } from 'zod';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { type StateFile, stateFile } from './state-file.ts';

/** Where a value is in STATE.md. */
export type Path = readonly (string | number)[];

/** STATE.md with the line of each of its values. */
export interface ParsedState<File = StateFile> {
  file: File;
  /** The line of the value at a path, or of the nearest one around it; from 1. */
  lineOf: (path: Path) => number;
}

/** The most errors that one answer names. */
const MOST_ERRORS = 20;

/**
 * Parses STATE.md. Comments and quoting do not matter; `blocked_since` is read as `identified_at`.
 * @throws {InvalidInputError} naming the lines at fault
 */
export function parseState(text: string): ParsedState {
  return parseStateAs(stateFile, text, MOST_ERRORS);
}

/**
 * Parses STATE.md as a schema says.
 * @param most how many lines at fault are named
 * @throws {InvalidInputError} naming the lines at fault
 */
export function parseStateAs<File>(schema: z.ZodType<File>, text: string, most: number): ParsedState<File> {
  const lines = new LineCounter();
  const doc = documentOf(text, lines, most);
  const lineOf = (path: Path) => {
    for (let length = path.length; length > 0; length -= 1) {
      const offset = offsetOf(doc, path.slice(0, length));
      if (offset !== undefined) return lines.linePos(offset).line;
    }
    return 1;
  };
  try {
    return { file: parseInput(schema, doc.toJS({ maxAliasCount: 0 })), lineOf };
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw new InvalidInputError(
      error.errors.slice(0, most).map(({ field, expected }) => ({
        field: lineField(lineOf(fieldPath(field))),
        expected: `${field}: ${expected}`,
      })),
    );
  }
}

/** The field of an error about a line. */
export function lineField(line: number): string {
  return `line ${line}`;
}

function documentOf(text: string, lineCounter: LineCounter, most: number): Document {
  let doc;
  try {
    doc = parseDocument(text, { lineCounter, version: '1.2', uniqueKeys: false, prettyErrors: false });
  } catch {
    // Nested deeper than the stack.
    throw new InvalidInputError([{ field: lineField(1), expected: 'YAML of a few levels' }]);
  }
  const fault = (offset: number, expected: string) => ({
    field: lineField(lineCounter.linePos(offset).line),
    expected,
  });
  const at = (offset: number, expected: string) => new InvalidInputError([fault(offset, expected)]);
  const faults = [
    ...doc.errors.map(({ pos, message }) => fault(pos[0], `YAML (${message})`)),
    ...repeatedKeys(doc).map((offset) => fault(offset, 'YAML (Map keys must be unique)')),
  ];
  if (faults.length > 0) throw new InvalidInputError(faults.slice(0, most));
  visit(doc, (_key, node) => {
    if (isPair(node) && isScalar(node.key) && node.key.value === 'blocked_since') node.key.value = 'identified_at';
    if (!isNode(node)) return;
    if (isAlias(node) || node.anchor !== undefined) throw at(node.range?.[0] ?? 0, 'no anchors and aliases');
    // A text is one however it is written: `no`, `1e3`.
    if (isScalar(node) && node.type === Scalar.PLAIN && node.value !== null && typeof node.value !== 'string') {
      node.value = node.source;
    }
  });
  return doc;
}

/** Where keys are that their map has already. The parser compares each key with all before it, which takes minutes in a file of keys. */
function repeatedKeys(doc: Document): number[] {
  const offsets: number[] = [];
  visit(doc, {
    Map: (_key, { items }) => {
      const known = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (known.has(key.value)) offsets.push(key.range?.[0] ?? 0);
        known.add(key.value);
      }
    },
  });
  return offsets;
}

/** Where a value begins: that of a map entry at its key. */
function offsetOf(doc: Document, path: Path): number | undefined {
  const parent = doc.getIn(path.slice(0, -1), true);
  const name = path.at(-1);
  if (isMap(parent)) {
    const pair = parent.items.find(({ key }) => isScalar(key) && key.value === name);
    return isPair(pair) && isNode(pair.key) ? pair.key.range?.[0] : undefined;
  }
  const node = doc.getIn(path, true);
  return isNode(node) ? node.range?.[0] : undefined;
}

/** `decisions[2].date` → ['decisions', 2, 'date'] */
export function fieldPath(field: string): Path {
  return [...field.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map(([, name, index]) =>
    index === undefined ? (name ?? '') : Number(index),
  );
}
