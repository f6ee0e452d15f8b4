import type pg from 'pg';
import type { z } from 'zod';
import { keptName } from '../../domain/attachments.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { type ImportRefusal, storeImport } from '../../store/transfer.ts';
import { type FieldError, InvalidInputError } from '../../wire/input.ts';
import type { exportedAttachment } from '../../wire/transfer.ts';
import type { Catalog } from '../catalog.ts';
import type { PutInTurn } from '../uploads/put-in-turn.ts';
import { Receiving } from '../uploads/receiving.ts';
import { UserLimiter } from '../wait/limiter.ts';
import { ImportCheck, type ImportChoice } from './import-check.ts';
import { KeptLines } from './kept-lines.ts';
import { LineReader } from './line-reader.ts';
import { type Line, linesOf } from './lines.ts';
import { longData } from './long-data.ts';
import { receiveFile } from './receive-file.ts';

/** A session that was imported. */
export interface Imported {
  session_id: string;
  /** Number of messages. */
  messages: number;
}

/** Imports that are received or stored at a time: each has a temporary file. */
const AT_ONCE = 4;
/** Of one user. */
const OF_A_USER = 2;
/** Imports that are stored at a time, one of each user: each holds a connection, which messages and commands need too. */
const STORED_AT_ONCE = 2;

/** Imports exports as new sessions. */
export class Imports {
  private readonly db: pg.Pool;
  private readonly catalog: Catalog | undefined;
  private readonly maxBytes: number | undefined;
  private readonly files: { put: PutInTurn; maxBytes: number };
  private readonly receiving = new Receiving(AT_ONCE, OF_A_USER);
  private readonly storing = new UserLimiter(STORED_AT_ONCE);

  /** @param deps.files how attachments are stored, and the longest of them in bytes */
  constructor(deps: {
    db: pg.Pool;
    catalog: Catalog | undefined;
    maxBytes: number | undefined;
    files: { put: PutInTurn; maxBytes: number };
  }) {
    ({ db: this.db, catalog: this.catalog, maxBytes: this.maxBytes, files: this.files } = deps);
  }

  /**
   * Imports an export as a new session of a user. The lines are checked while they arrive and kept in a temporary file, then
   * stored in one transaction: a slow sender holds no connection to Postgres, and memory stays constant.
   * @throws {InvalidInputError} naming the line: `InvalidLine`, `WrongOrder`, `ForeignId`, `DuplicateId`, `TooLarge`; nothing is stored
   * @throws {PerdureError} `TooLarge` for more than `maxBytes`, `Unavailable` if the disk is full, or if the lines arrive slowly
   * while others wait
   * @throws {LeftTheLineError} `signal` fired while it waited for others
   */
  import(
    user: string,
    body: AsyncIterable<Uint8Array>,
    { signal, ...choice }: ImportChoice & { signal?: AbortSignal | undefined },
  ): Promise<Imported> {
    return this.receiving.run({ user, signal }, body, async (content) => {
      await using kept = await KeptLines.open();
      const check = new ImportCheck(this.catalog, choice);
      const messages = await this.receive({ content, signal }, check, kept);
      const sessionId = newId('ses');
      await this.storing.run(user, () => this.store({ sessionId, userId: user }, kept), signal);
      return { session_id: sessionId, messages };
    });
  }

  /** Checks the lines while they arrive, and keeps them. Returns the number of messages. */
  private async receive(
    { content, signal }: { content: AsyncIterable<Uint8Array>; signal: AbortSignal | undefined },
    check: ImportCheck,
    kept: KeptLines,
  ): Promise<number> {
    await using reader = new LineReader(linesOf(atMost(this.maxBytes, content)));
    for (let line = await reader.next(); line !== undefined; line = await reader.next()) {
      const field = `line ${line.number}`;
      const { value } = line;
      if (value['kind'] === 'part' && value['data'] === null) value['data'] = await longData(field, reader.contents());
      let text = check.line(line);
      if (value['kind'] === 'attachment') {
        const attachment = value as z.output<typeof exportedAttachment>;
        const filename = keptName(attachment.filename ?? undefined);
        const content_id = await receiveFile(this.files, { field, attachment, lines: reader.contents() }, signal);
        text = JSON.stringify({ ...attachment, filename, content_id });
      }
      await kept.add({ number: line.number, text });
    }
    return check.end(reader.number);
  }

  private async store(session: { sessionId: string; userId: string }, kept: KeptLines): Promise<void> {
    const refusal = await storeImport(this.db, session, kept.batches());
    if (refusal) throw await refused(refusal, kept.lines());
  }
}

async function* atMost(maxBytes = Infinity, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) {
      throw new PerdureError('TooLarge', `body: expected at most ${maxBytes} bytes (PERDURE_MAX_IMPORT)`);
    }
    yield piece;
  }
}

/** The error of a refusal, with the number of its line. */
async function refused(refusal: ImportRefusal, lines: AsyncIterable<Line>): Promise<InvalidInputError> {
  const { code } = refusal;
  if (code === 'InvalidLine') {
    const field = refusal.from === refusal.to ? `line ${refusal.to}` : `lines ${refusal.from} to ${refusal.to}`;
    return new InvalidInputError([{ field, expected: 'values that Postgres can store' }], code);
  }
  const { kind, field, value } = refusal;
  let left = code === 'DuplicateId' ? 2 : 1;
  let at = 0;
  for await (const { number, text } of lines) {
    const line = JSON.parse(text) as Record<string, unknown>;
    if (line['kind'] !== kind || line[field] !== value) continue;
    at = number;
    left -= 1;
    if (left === 0) break;
  }
  const line = `line ${at}`;
  return new InvalidInputError([code === 'DuplicateId' ? duplicate(line, refusal) : foreign(line, kind)], code);
}

function duplicate(line: string, { field, value }: { field: string; value: string }): FieldError {
  return { field: `${line}.${field}`, expected: `another one: "${value}" occurs before` };
}

function foreign(line: string, kind: 'attachment' | 'message' | 'part'): FieldError {
  return kind === 'attachment'
    ? { field: `${line}.id`, expected: 'the id of an attachment that a part refers to' }
    : { field: `${line}.metadata.hidden_by.id`, expected: 'the id of a later message' };
}
