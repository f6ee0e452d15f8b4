import type { FileHandle } from 'node:fs/promises';
import type { ImportBatch } from '../../store/transfer.ts';
import { bytesOf, namelessFile, onDisk } from '../uploads/spool.ts';
import { type Line, linesOf } from './lines.ts';

const WRITE_CHARACTERS = 256 * 1024;
const BATCH_LINES = 500;
const BATCH_CHARACTERS = 1024 * 1024;

/** The checked lines of an import in a temporary file, each after its number: those of contents are not among them. */
export class KeptLines implements AsyncDisposable {
  private readonly file: FileHandle;
  private unwritten = '';

  private constructor(file: FileHandle) {
    this.file = file;
  }

  /** @throws {PerdureError} `Unavailable` if the disk is full */
  static async open(): Promise<KeptLines> {
    return new KeptLines(await namelessFile());
  }

  /** @throws {PerdureError} `Unavailable` if the disk is full */
  async add({ number, text }: Line): Promise<void> {
    this.unwritten += `${number} ${text}\n`;
    if (this.unwritten.length >= WRITE_CHARACTERS) await this.write();
  }

  /** All lines. */
  async *lines(): AsyncGenerator<Line> {
    await this.write();
    for await (const { text } of linesOf(bytesOf(this.file), Infinity)) {
      const end = text.indexOf(' ');
      yield { number: Number(text.slice(0, end)), text: text.slice(end + 1) };
    }
  }

  /** The same in batches of about a megabyte. */
  async *batches(): AsyncGenerator<ImportBatch> {
    let batch: ImportBatch | undefined;
    let characters = 0;
    for await (const { number, text } of this.lines()) {
      if (batch && (batch.lines.length === BATCH_LINES || characters + text.length > BATCH_CHARACTERS)) {
        yield batch;
        batch = undefined;
        characters = 0;
      }
      batch ??= { from: number, to: number, lines: [] };
      batch.to = number;
      batch.lines.push(text);
      characters += text.length;
    }
    if (batch) yield batch;
  }

  private async write(): Promise<void> {
    const text = this.unwritten;
    this.unwritten = '';
    await onDisk(() => this.file.appendFile(text));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.file.close();
  }
}
