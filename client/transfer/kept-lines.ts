import type { FileHandle } from 'node:fs/promises';
import type { ImportBatch } from '../../store/transfer.ts';
import { bytesOf, namelessFile } from '../uploads/spool.ts';
import { LineWriter } from './line-writer.ts';
import { type Line, linesOf } from './lines.ts';

const BATCH_BYTES = 64 * 1024;
const WRITTEN_BYTES = 128 * 1024;
const NEWLINE = 0x0a;

/** The checked lines of an import in a temporary file, each after its number: those of contents are not among them. */
export class KeptLines implements AsyncDisposable {
  private readonly file: FileHandle;
  private readonly writer: LineWriter;

  private constructor(file: FileHandle) {
    this.file = file;
    this.writer = new LineWriter(file);
  }

  /** @throws {PerdureError} `Unavailable` if the disk is full */
  static async open(): Promise<KeptLines> {
    return new KeptLines(await namelessFile());
  }

  /** @throws {PerdureError} `Unavailable` if the disk is full */
  add({ number, text }: Line): Promise<void> {
    this.writer.add(`${number} ${text}`);
    return this.writer.flush(WRITTEN_BYTES);
  }

  /** All lines. */
  async *lines(): AsyncGenerator<Line> {
    await this.writer.flush();
    for await (const { text } of linesOf(bytesOf(this.file), Infinity)) {
      const end = text.indexOf(' ');
      yield { number: Number(text.slice(0, end)), text: text.slice(end + 1) };
    }
  }

  /** The same in batches. One is valid until the next one is asked for. */
  async *batches(): AsyncGenerator<ImportBatch> {
    await this.writer.flush();
    let buffer = Buffer.allocUnsafe(BATCH_BYTES);
    for (let at = 0; ;) {
      const { bytesRead } = await this.file.read(buffer, { position: at });
      if (bytesRead === 0) return;
      const end = buffer.lastIndexOf(NEWLINE, bytesRead - 1);
      if (end < 0) {
        // Of a line that is longer.
        buffer = Buffer.allocUnsafe(2 * buffer.length);
        continue;
      }
      const lines = buffer.subarray(0, end);
      yield { from: numberAt(lines, 0), to: numberAt(lines, lines.lastIndexOf(NEWLINE) + 1), lines };
      at += end + 1;
      if (buffer.length > BATCH_BYTES) buffer = Buffer.allocUnsafe(BATCH_BYTES);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.file.close();
  }
}

/** The number before the line that begins there. */
function numberAt(lines: Buffer, at: number): number {
  return Number(lines.toString('latin1', at, lines.indexOf(' ', at)));
}
