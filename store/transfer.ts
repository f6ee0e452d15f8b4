import type pg from 'pg';
import { z } from 'zod';
import { call, type Db, many, maybeOne } from './db.ts';

/** The line of a session, and where its export ends; undefined: there is no such session. */
export function exportedSessionLine(db: Db, sessionId: string): Promise<{ line: string; last: number } | undefined> {
  const row = z.object({ line: z.string(), last: z.number() });
  const sql = 'SELECT line, last FROM export_session($1) WHERE line IS NOT NULL';
  return maybeOne(db, row, sql, [sessionId]);
}

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
  const db = await pool.connect();
  let isUsable = true;
  /** Of the statement in progress: the lines from one number to another. */
  const lines = { from: 1, to: 0 };
  try {
    await db.query('BEGIN');
    await storeBatches(db, session, numbered(batches, lines));
    await db.query('COMMIT');
    return undefined;
  } catch (error) {
    await db.query('ROLLBACK').catch(() => (isUsable = false));
    const refusal = error instanceof RefusedError ? error.refusal : (duplicateIn(error) ?? invalidIn(error, lines));
    if (refusal === undefined) throw error;
    return refusal;
  } finally {
    db.release(!isUsable);
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
