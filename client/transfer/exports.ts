import type { FileHandle } from 'node:fs/promises';
import type pg from 'pg';
import { PerdureError } from '../../domain/errors.ts';
import { type Contents, inChunks, LostContentError } from '../../store/contents.ts';
import { readOwner } from '../../store/sessions.ts';
import { type ExportedFile, readExport } from '../../store/transfer.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import { namelessFile } from '../uploads/spool.ts';
import { Limiter } from '../wait/limiter.ts';
import { LineWriter } from './line-writer.ts';

/** Exports of a user at a time: each has a temporary file until its reader has it. */
const OF_A_USER = 4;
/** Exports that are read from Postgres at a time: each holds a connection. */
const READ_AT_ONCE = 2;

/** Bytes in a line of content: longer strings stay in memory until V8 collects all. */
const CONTENT_BYTES = 48 * 1024;
const PIECE_BYTES = 64 * 1024;

/** Exports sessions. */
export class Exports {
  private readonly db: pg.Pool;
  private readonly contents: Contents;
  private readonly reading = new Limiter(READ_AT_ONCE);
  private readonly users = new Map<string, number>();

  constructor(deps: { db: pg.Pool; contents: Contents }) {
    ({ db: this.db, contents: this.contents } = deps);
  }

  /**
   * The lines of a session as it is when the first piece is asked for. They wait for their reader in a temporary file: a slow one
   * holds no snapshot in Postgres, and memory does not grow with the session.
   * @throws {PerdureError} `SessionNotFound`, `TooMany`, `Unavailable` if the disk is full
   */
  async *export(user: string, sessionId: string): AsyncGenerator<Uint8Array, void> {
    using _ = this.admit(user);
    await using spool = await namelessFile();
    const writer = new LineWriter(spool);
    const found = await this.reading.run(() => readExport(this.db, sessionId, (line) => writer.add(line)));
    if (!found) throw sessionNotFound();
    await writer.flush();
    yield Buffer.from(`${found.line}\n`);
    for (const file of found.files) yield* this.file(sessionId, file);
    yield* piecesOf(spool);
  }

  /** The line of an attachment, and those of its content. None, if its bytes are lost. */
  private async *file(sessionId: string, { line, ...content }: ExportedFile): AsyncGenerator<Uint8Array> {
    const bytes = await this.contents.open(content).catch((error: unknown) => {
      if (error instanceof LostContentError) return undefined;
      throw error;
    });
    if (bytes === undefined) {
      // Or erased while it was exported.
      if ((await readOwner(this.db, sessionId)) === undefined) throw sessionNotFound();
      return;
    }
    let left = content.size;
    for await (const chunk of inChunks(bytes, CONTENT_BYTES)) {
      if (left === content.size) yield Buffer.from(`${line}\n`);
      left -= chunk.length;
      yield Buffer.from(`{"data": "${chunk.toString('base64')}", "kind": "content"}\n`);
    }
    if (left !== 0) throw new Error('the content of an attachment is not whole');
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
  for (let at = 0; ;) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(PIECE_BYTES), { position: at });
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
