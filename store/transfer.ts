import type pg from 'pg';
import { z } from 'zod';
import { call, type Db, many, maybeOne } from './db.ts';

/** A place in an export: a message's position, and the index of its part; -1 is the message itself. */
export interface ExportPlace {
  at: number;
  part: number;
}

const exportedLine = z.object({ at: z.number(), part: z.number(), line: z.string() });

/** The next lines of an export, until they have 1 MiB or are those of 1,000 messages. */
export function exportedLines(
  db: Db,
  sessionId: string,
  after: ExportPlace,
  last: number,
): Promise<(ExportPlace & { line: string })[]> {
  return many(db, exportedLine, 'SELECT * FROM export_lines($1, $2, $3, $4)', [sessionId, after.at, after.part, last]);
}

const exportedSession = z.object({ line: z.string(), last: z.number() });

/**
 * Reads the lines of a session's export from one snapshot, whatever changes meanwhile.
 * @param take is called with the next lines, about 1 MiB
 * @returns false: there is no such session
 */
export function readExport(pool: pg.Pool, sessionId: string, take: (lines: string) => Promise<void>): Promise<boolean> {
  return inTransaction(pool, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', async (db) => {
    const sql = 'SELECT line, last FROM export_session($1) WHERE line IS NOT NULL';
    const session = await maybeOne(db, exportedSession, sql, [sessionId]);
    if (!session) return false;
    await take(`${session.line}\n`);
    let place: ExportPlace = { at: 0, part: -1 };
    for (;;) {
      const lines = await exportedLines(db, sessionId, place, session.last);
      const end = lines.at(-1);
      if (end === undefined) return true;
      place = end;
      await take(lines.map(({ line }) => `${line}\n`).join(''));
    }
  });
}

async function inTransaction<T>(pool: pg.Pool, begin: string, work: (db: pg.PoolClient) => Promise<T>): Promise<T> {
  const db = await pool.connect();
  let isUsable = true;
  try {
    await db.query(begin);
    const result = await work(db);
    await db.query('COMMIT');
    return result;
  } catch (error) {
    await db.query('ROLLBACK').catch(() => (isUsable = false));
    throw error;
  } finally {
    db.release(!isUsable);
  }
}

/**
 * Why the lines of an import were not stored: a value that occurs twice, a reference to a message that is not there, or a value
 * that Postgres cannot hold.
 */
export type ImportRefusal = IdRefusal | { code: 'InvalidLine'; from: number; to: number };

interface IdRefusal {
  code: 'DuplicateId' | 'ForeignId';
  /** The line at fault: the first or, of a duplicate, the second one of this kind with this value in this field. */
  kind: 'message' | 'part';
  field: 'id' | 'tool_call_id';
  value: string;
}

class RefusedError extends Error {
  readonly refusal: IdRefusal;

  constructor(refusal: IdRefusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

/** Stores the lines of an import, which have been checked, in one transaction, or returns why not; then nothing is stored. */
export async function storeImport(
  pool: pg.Pool,
  session: { sessionId: string; userId: string },
  batches: AsyncIterable<string[]>,
): Promise<ImportRefusal | undefined> {
  /** Of the statement in progress: the lines from one number to another. */
  const lines = { from: 1, to: 0 };
  try {
    await inTransaction(pool, 'BEGIN', (db) => storeBatches(db, session, numbered(batches, lines)));
    return undefined;
  } catch (error) {
    const refusal = error instanceof RefusedError ? error.refusal : (duplicateIn(error) ?? invalidIn(error, lines));
    if (refusal === undefined) throw error;
    return refusal;
  }
}

/** Batches as they are, with the numbers of their lines in `lines`; after the last batch, of all lines. */
async function* numbered(
  batches: AsyncIterable<string[]>,
  lines: { from: number; to: number },
): AsyncGenerator<string[]> {
  for await (const batch of batches) {
    lines.from = lines.to + 1;
    lines.to += batch.length;
    yield batch;
  }
  lines.from = 1;
}

async function storeBatches(
  db: pg.PoolClient,
  { sessionId, userId }: { sessionId: string; userId: string },
  batches: AsyncIterable<string[]>,
): Promise<void> {
  let isFirst = true;
  for await (const batch of batches) {
    const lines = isFirst ? batch.slice(1) : batch;
    if (isFirst) await db.query('SELECT import_session($1, $2, $3)', [sessionId, userId, batch[0]]);
    if (lines.length > 0) await db.query('SELECT import_lines($1, $2)', [sessionId, lines]);
    isFirst = false;
  }
  const foreign = await call(db, z.string().nullable(), 'finish_import', [sessionId]);
  if (foreign !== null) throw new RefusedError({ code: 'ForeignId', kind: 'message', field: 'id', value: foreign });
}

const UNIQUE_VIOLATION = '23505';
const DUPLICATES: Readonly<Record<string, Pick<IdRefusal, 'kind' | 'field'>>> = {
  chat_messages_pkey: { kind: 'message', field: 'id' },
  chat_parts_pkey: { kind: 'part', field: 'id' },
  chat_parts_of_tool_calls: { kind: 'part', field: 'tool_call_id' },
};

function duplicateIn(error: unknown): IdRefusal | undefined {
  const { code, constraint = '', detail = '' } = error as pg.DatabaseError;
  const found = code === UNIQUE_VIOLATION ? DUPLICATES[constraint] : undefined;
  const value = /=\([^,]*, (?<value>.*)\) already exists\.$/s.exec(detail)?.groups?.['value'];
  return found && value !== undefined ? { code: 'DuplicateId', ...found, value } : undefined;
}

/** Class 22, "data exception": a value that a type of Postgres cannot hold. */
function invalidIn(error: unknown, lines: { from: number; to: number }): ImportRefusal | undefined {
  const { code } = error as pg.DatabaseError;
  return typeof code === 'string' && /^22\w{3}$/.test(code) ? { code: 'InvalidLine', ...lines } : undefined;
}
