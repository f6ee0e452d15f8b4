import type { FileHandle } from 'node:fs/promises';
import type { ImportBatch } from '../../store/transfer.ts';
import { bytesOf, namelessFile } from '../uploads/spool.ts';
import { LineWriter } from './line-writer.ts';
import { type Line, linesOf } from './lines.ts';

const BATCH_LINES = 500;
/** What is larger stays in memory until V8 collects all. */
const BATCH_CHARACTERS = 64 * 1024;

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
    return this.writer.add(`${number} ${text}`);
  }

  /** All lines. */
  async *lines(): AsyncGenerator<Line> {
    await this.writer.flush();
    for await (const { text } of linesOf(bytesOf(this.file), Infinity)) {
      const end = text.indexOf(' ');
      yield { number: Number(text.slice(0, end)), text: text.slice(end + 1) };
    }
  }

  /** The same in batches. */
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

  [Symbol.asyncDispose](): Promise<void> {
    return this.file.close();
  }
}
