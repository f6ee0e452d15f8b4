import type pg from 'pg';
import { PerdureError } from '../../domain/errors.ts';
import { readExport } from '../../store/transfer.ts';
import { sessionNotFound } from '../refusal-errors.ts';
import { bytesOf, namelessFile, onDisk } from '../uploads/spool.ts';
import { Limiter } from '../wait/limiter.ts';

/** Exports of a user at a time: each has a temporary file until its reader has it. */
const OF_A_USER = 4;
/** Exports that are read from Postgres at a time: each holds a connection. */
const READ_AT_ONCE = 2;

/** Exports sessions. */
export class Exports {
  private readonly db: pg.Pool;
  private readonly reading = new Limiter(READ_AT_ONCE);
  private readonly users = new Map<string, number>();

  constructor(db: pg.Pool) {
    this.db = db;
  }

  /**
   * The lines of a session as it is when the first piece is asked for. They wait for their reader in a temporary file: a slow one
   * holds no snapshot in Postgres, and memory does not grow with the session.
   * @throws {PerdureError} `SessionNotFound`, `TooMany`, `Unavailable` if the disk is full
   */
  async *export(user: string, sessionId: string): AsyncGenerator<Uint8Array, void> {
    using _ = this.admit(user);
    await using spool = await namelessFile();
    const take = (lines: string) => onDisk(() => spool.appendFile(lines));
    const isFound = await this.reading.run(() => readExport(this.db, sessionId, take));
    if (!isFound) throw sessionNotFound();
    yield* bytesOf(spool);
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
