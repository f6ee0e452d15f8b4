import type { FileHandle } from 'node:fs/promises';
import { onDisk } from '../uploads/spool.ts';

const BUFFER_BYTES = 256 * 1024;
/** Of a buffer that is used again. */
const MOST_BYTES = 4 * 1024 ** 2;

/** Writes lines to a temporary file through one buffer: strings and buffers that are kept would fill V8's young generation. */
export class LineWriter {
  private readonly file: FileHandle;
  private buffer = Buffer.allocUnsafe(BUFFER_BYTES);
  private used = 0;

  constructor(file: FileHandle) {
    this.file = file;
  }

  /** Adds a line to the buffer, which grows if it must. */
  add(line: string): void {
    const bytes = this.used + Buffer.byteLength(line) + 1;
    if (bytes > this.buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(bytes, 2 * this.buffer.length));
      larger.set(this.buffer.subarray(0, this.used));
      this.buffer = larger;
    }
    this.used += this.buffer.write(line, this.used);
    this.used += this.buffer.write('\n', this.used);
  }

  /** Writes the buffer to the file if it has so many bytes. @throws {PerdureError} `Unavailable` if the disk is full */
  async flush(least = 1): Promise<void> {
    const { buffer, used } = this;
    if (used < least) return;
    this.used = 0;
    // Of a very long line.
    if (buffer.length > MOST_BYTES) this.buffer = Buffer.allocUnsafe(BUFFER_BYTES);
    await onDisk(() => this.file.appendFile(buffer.subarray(0, used)));
  }
}
