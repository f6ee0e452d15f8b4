import type { FileHandle } from 'node:fs/promises';
import { onDisk } from '../uploads/spool.ts';

const BUFFER_BYTES = 256 * 1024;

/** Writes lines to a temporary file through one buffer: large strings and buffers would stay in memory until V8 collects all. */
export class LineWriter {
  private readonly file: FileHandle;
  private readonly buffer = Buffer.allocUnsafe(BUFFER_BYTES);
  private used = 0;

  constructor(file: FileHandle) {
    this.file = file;
  }

  /** @throws {PerdureError} `Unavailable` if the disk is full */
  async add(line: string): Promise<void> {
    const bytes = Buffer.byteLength(line) + 1;
    if (bytes > BUFFER_BYTES - this.used) await this.flush();
    if (bytes > BUFFER_BYTES) {
      await onDisk(() => this.file.appendFile(`${line}\n`));
      return;
    }
    this.used += this.buffer.write(line, this.used);
    this.used += this.buffer.write('\n', this.used);
  }

  /** Writes what is in the buffer. @throws {PerdureError} `Unavailable` if the disk is full */
  async flush(): Promise<void> {
    const { used } = this;
    this.used = 0;
    if (used > 0) await onDisk(() => this.file.appendFile(this.buffer.subarray(0, used)));
  }
}
