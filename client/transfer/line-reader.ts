import { cleanJson } from '../../domain/text.ts';
import { faultIn, InvalidInputError } from '../../wire/input.ts';
import type { Line } from './lines.ts';

/** A line of an import as a JSON object. */
export interface ParsedLine {
  number: number;
  value: Record<string, unknown>;
}

/** Reads the lines of an import one after another. Those of the kind "content" belong to the line before them. */
export class LineReader implements AsyncDisposable {
  /** Of the newest line that was read. */
  number = 0;
  private readonly lines: AsyncIterator<Line, void>;
  private ahead: ParsedLine | undefined;

  constructor(lines: AsyncIterable<Line>) {
    this.lines = lines[Symbol.asyncIterator]() as AsyncIterator<Line, void>;
  }

  /** @throws {InvalidInputError} `InvalidLine` for a line that is no JSON object, or that Postgres could not store */
  async next(): Promise<ParsedLine | undefined> {
    const held = this.ahead;
    this.ahead = undefined;
    if (held !== undefined) return held;
    const { value: line } = await this.lines.next();
    if (!line) return undefined;
    this.number = line.number;
    const field = `line ${line.number}`;
    return { number: line.number, value: objectOf(jsonOf(line.text, field), field) };
  }

  /** The lines of the kind "content" that come next. */
  async *contents(): AsyncGenerator<ParsedLine> {
    for (;;) {
      const line = await this.next();
      if (line?.value['kind'] !== 'content') {
        this.ahead = line;
        return;
      }
      yield line;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lines.return?.();
  }
}

/** JSON that Postgres can store, too. @throws {InvalidInputError} `InvalidLine` */
export function jsonOf(text: string, field: string): unknown {
  const invalid = (expected: string) => new InvalidInputError([{ field, expected }], 'InvalidLine');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid('JSON');
  }
  const fault = faultIn(value);
  if (fault !== undefined) throw invalid(fault);
  // An escape is the only way to write what Postgres refuses: U+0000 and half of a surrogate pair.
  if (text.includes('\\u') && JSON.stringify(cleanJson(value)) !== JSON.stringify(value)) {
    throw invalid('no character U+0000 and no half of a surrogate pair');
  }
  return value;
}

function objectOf(value: unknown, field: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new InvalidInputError([{ field, expected: 'a JSON object' }], 'InvalidLine');
}
