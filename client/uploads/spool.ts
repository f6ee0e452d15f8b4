import { createHash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PerdureError } from '../../domain/errors.ts';
import { MediaTypeReader } from '../../domain/media-type.ts';

const PIECE_BYTES = 64 * 1024;

/** A content that was received whole, in a temporary file without a name: it is gone with the process or `close`. */
export class Spool implements AsyncDisposable {
  /** In bytes. */
  readonly size: number;
  /** SHA-256, in hex. */
  readonly digest: string;
  /** Undefined: of a type that is not accepted. */
  readonly mediaType: string | undefined;
  private readonly file: FileHandle;

  private constructor(file: FileHandle, facts: { size: number; digest: string; mediaType: string | undefined }) {
    this.file = file;
    ({ size: this.size, digest: this.digest, mediaType: this.mediaType } = facts);
  }

  /**
   * Receives a content.
   * @param options.declared the media type that its sender says
   * @param options.tooLarge makes the error for more than `maxBytes`
   * @throws {PerdureError} `Unavailable` if the disk is full
   */
  static async receive(
    content: AsyncIterable<Uint8Array>,
    options: { maxBytes: number; declared: string | undefined; tooLarge: () => Error },
  ): Promise<Spool> {
    const file = await namelessFile();
    try {
      const digest = createHash('sha256');
      const type = new MediaTypeReader();
      let size = 0;
      for await (const piece of content) {
        size += piece.length;
        if (size > options.maxBytes) throw options.tooLarge();
        digest.update(piece);
        type.take(piece);
        await onDisk(() => file.appendFile(piece));
      }
      return new Spool(file, { size, digest: digest.digest('hex'), mediaType: type.end(options.declared) });
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  bytes(): AsyncGenerator<Uint8Array> {
    return bytesOf(this.file);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.file.close();
  }
}

/** Writes to temporary files. @throws {PerdureError} `Unavailable` if that fails: the disk may be full */
export async function onDisk<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const message = 'the body could not be kept in a temporary file: the disk of the host may be full';
    throw new PerdureError('Unavailable', message, { cause: error });
  }
}

/** A temporary file that is gone with the process or `close`. @throws {PerdureError} `Unavailable` if the disk is full */
export function namelessFile(): Promise<FileHandle> {
  return onDisk(async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'perdure-'));
    try {
      return await open(path.join(folder, 'content'), 'wx+', 0o600);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}

/** The bytes of a file from its beginning; may be read again. A piece is valid until the next one is asked for. */
export async function* bytesOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(piece, { position: at });
    if (bytesRead === 0) return;
    at += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
}
