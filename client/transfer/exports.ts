import type { FileHandle } from 'node:fs/promises';
import type pg from 'pg';
import { ContentUnavailableError } from '../../domain/content-unavailable-error.ts';
import { PerdureError } from '../../domain/errors.ts';
import { type Contents, inChunks, LostContentError, type StoredContent } from '../../store/contents.ts';
import { readOwner } from '../../store/sessions.ts';
import { type ExportedFile, readExport } from '../../store/transfer.ts';
import type { ClientLog } from '../log.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import { bytesOf, namelessFile, Spool } from '../uploads/spool.ts';
import { type Limit, UserLimiter } from '../wait/limiter.ts';
import { LineWriter } from './line-writer.ts';

/** Exports of a user at a time: each has a temporary file until its reader has it. */
const OF_A_USER = 4;
/** Exports that are read from Postgres at a time, one of each user: each holds one of the connections that streams may have. */
const READ_AT_ONCE = 2;

/** Bytes in a line of content: longer strings stay in memory until V8 collects all. */
const CONTENT_BYTES = 48 * 1024;
/**
 * Bytes in a piece. Memory of a piece is free when V8 has collected its object, which happens after some thousand objects, however large
 * they are.
 */
const PIECE_BYTES = 32 * 1024;

/** Exports sessions. */
export class Exports {
  private readonly db: pg.Pool;
  private readonly contents: Contents;
  private readonly log: ClientLog;
  private readonly limit: Limit;
  private readonly reading = new UserLimiter(READ_AT_ONCE);
  private readonly users = new Map<string, number>();

  /** @param deps.limit of the connections that streams may hold */
  constructor(deps: { db: pg.Pool; contents: Contents; log: ClientLog; limit: Limit }) {
    ({ db: this.db, contents: this.contents, log: this.log, limit: this.limit } = deps);
  }

  /**
   * The lines of a session as it is at one moment, when its turn has come. They wait for their reader in a temporary file: a slow one
   * holds no snapshot in Postgres, and memory does not grow with the session.
   * @throws {PerdureError} `SessionNotFound`, `TooMany`, `Unavailable` if the disk is full, or the bytes of an attachment cannot be read
   * now: of the first one before the first piece
   * @throws {LeftTheLineError} `signal` fired while it waited for others
   */
  async *export(user: string, sessionId: string, signal?: AbortSignal): AsyncGenerator<Uint8Array, void> {
    using _ = this.admit(user);
    await using spool = await namelessFile();
    const writer = new LineWriter(spool);
    const read = () => this.limit(() => readExport(this.db, sessionId, writer), signal);
    const found = await this.reading.run(user, read, signal);
    if (!found) throw sessionNotFound();
    let piece: Uint8Array = Buffer.from(`${found.line}\n`);
    for (const file of found.files) {
      for await (const next of this.file(sessionId, file)) {
        // Only now: that the first file cannot be read is known before the first piece.
        yield piece;
        piece = next;
      }
    }
    yield piece;
    yield* piecesOf(spool);
  }

  /** The line of an attachment, and those of its content. None, if its bytes are lost. */
  private async *file(sessionId: string, exported: ExportedFile): AsyncGenerator<Uint8Array> {
    await using content = await this.received(sessionId, exported);
    if (content === undefined) return;
    yield Buffer.from(`${exported.line}\n`);
    for await (const chunk of inChunks(content.bytes(), CONTENT_BYTES)) {
      yield Buffer.from(`{"data": "${chunk.toString('base64')}", "kind": "content"}\n`);
    }
  }

  /** The content of an attachment, in a temporary file: its place does not wait for the reader. Undefined: it is lost. */
  private async received(sessionId: string, { line, ...content }: ExportedFile): Promise<Spool | undefined> {
    // Else files would be left out of every export while a setting is missing.
    if (content.place === 's3' && this.contents.place !== 's3') {
      throw new ContentUnavailableError('an attachment is in a bucket, and PERDURE_S3_URL is not set');
    }
    const { id: attachment, digest } = JSON.parse(line) as { id: string; digest: string };
    const lost = () => new LostContentError(content.content_id, content.place);
    try {
      const received = await Spool.receive(this.bytesOf(content), {
        maxBytes: content.size,
        declared: undefined,
        tooLarge: lost,
      });
      if (received.digest === digest) return received;
      await received[Symbol.asyncDispose]();
      throw lost();
    } catch (err) {
      if (!(err instanceof LostContentError)) throw err;
      // Or erased while it was exported.
      if ((await readOwner(this.db, sessionId)) === undefined) throw sessionNotFound();
      this.log.warn({ err, session: sessionId, attachment }, 'an attachment is lost: an export is without it');
      return undefined;
    }
  }

  /** Opened only once they are read: what is open must be read or returned, and the temporary file may fail before. */
  private async *bytesOf(content: StoredContent): AsyncGenerator<Uint8Array> {
    yield* await this.contents.open(content);
  }

  private admit(user: string): Disposable {
    const count = this.users.get(user) ?? 0;
    if (count >= OF_A_USER)
      throw new PerdureError('TooMany', `expected at most ${OF_A_USER} exports of a user at a time`);
    this.users.set(user, count + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.users.get(user) ?? 1) - 1;
        if (left > 0) this.users.set(user, left);
        else this.users.delete(user);
      },
    };
  }
}

/** The bytes of a file, in pieces that their reader may keep. */
async function* piecesOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  for await (const read of bytesOf(file)) {
    for (let at = 0; at < read.length; at += PIECE_BYTES) yield Buffer.from(read.subarray(at, at + PIECE_BYTES));
  }
}
