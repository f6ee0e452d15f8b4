import { InvalidInputError } from '../../wire/input.ts';

/** Longest line of an import, in bytes. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

/** A line of an import; the first is number 1. */
export interface Line {
  number: number;
  text: string;
}

const NEWLINE = 0x0a;
const FIRST_BYTES = 64 * 1024;

/**
 * Splits bytes into lines. Keeps at most one line in memory. The last line may end without a newline.
 * @throws {InvalidInputError} `TooLarge` as soon as a line has more than `maxBytes`, by default 4 MiB, `InvalidLine` for invalid
 * UTF-8
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes = MAX_LINE_BYTES): AsyncGenerator<Line> {
  let number = 1;
  const held = new HeldLine(maxBytes);
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      held.add(chunk.subarray(from, end), number);
      yield { number, text: held.take(number) };
      [from, number] = [end + 1, number + 1];
    }
    held.add(chunk.subarray(from), number);
  }
  if (held.bytes > 0) yield { number, text: held.take(number) };
}

/** The line that is arriving, in one buffer: a sender of single bytes must not make millions of objects. */
class HeldLine {
  bytes = 0;
  private buffer = Buffer.allocUnsafe(FIRST_BYTES);
  private readonly decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  private readonly maxBytes: number;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  add(piece: Uint8Array, number: number): void {
    const bytes = this.bytes + piece.byteLength;
    if (bytes > this.maxBytes) {
      throw new InvalidInputError(
        [{ field: `line ${number}`, expected: `at most ${this.maxBytes} bytes` }],
        'TooLarge',
      );
    }
    if (bytes > this.buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(bytes, 2 * this.buffer.length));
      larger.set(this.buffer.subarray(0, this.bytes));
      this.buffer = larger;
    }
    this.buffer.set(piece, this.bytes);
    this.bytes = bytes;
  }

  /** The text of the line; the next one begins. */
  take(number: number): string {
    const line = this.buffer.subarray(0, this.bytes);
    this.bytes = 0;
    try {
      return this.decoder.decode(line);
    } catch {
      throw new InvalidInputError([{ field: `line ${number}`, expected: 'text in UTF-8' }], 'InvalidLine');
    }
  }
}
