import type pg from 'pg';
import { z } from 'zod';
import { placeOfContent } from './contents.ts';
import { type Db, many, maybeOne } from './db.ts';

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
const exportedFile = z.object({ line: z.string(), content_id: z.string(), place: placeOfContent, size: z.number() });

/** The line of an attachment, and the content that follows it. */
export type ExportedFile = z.infer<typeof exportedFile>;

/**
 * Reads a session's export from one snapshot, whatever changes meanwhile: the line of the session, those of its attachments, and
 * those of its messages and their parts.
 * @param take is called with each line of a message or a part
 * @returns undefined: there is no such session
 */
export function readExport(
  pool: pg.Pool,
  sessionId: string,
  take: (line: string) => Promise<void>,
): Promise<{ line: string; files: ExportedFile[] } | undefined> {
  return inTransaction(pool, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', async (db) => {
    const sql = 'SELECT line, last FROM export_session($1) WHERE line IS NOT NULL';
    const session = await maybeOne(db, exportedSession, sql, [sessionId]);
    if (!session) return undefined;
    const files = await many(db, exportedFile, 'SELECT * FROM export_attachments($1)', [sessionId]);
    let place: ExportPlace = { at: 0, part: -1 };
    for (;;) {
      const lines = await exportedLines(db, sessionId, place, session.last);
      const end = lines.at(-1);
      if (end === undefined) return { line: session.line, files };
      place = end;
      for (const { line } of lines) await take(line);
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
 * Why the lines of an import were not stored: a value that occurs twice, a reference to a message that is not there, an attachment
 * that no part refers to, or a value that Postgres cannot hold.
 */
export type ImportRefusal = IdRefusal | { code: 'InvalidLine'; from: number; to: number };

interface IdRefusal {
  code: 'DuplicateId' | 'ForeignId';
  /** The line at fault: the first or, of a duplicate, the second one of this kind with this value in this field. */
  kind: 'attachment' | 'message' | 'part';
  field: 'id' | 'digest' | 'tool_call_id';
  value: string;
}

class RefusedError extends Error {
  readonly refusal: IdRefusal;

  constructor(refusal: IdRefusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

/** Lines of an import that are stored together, and the numbers of the first and the last one. */
export interface ImportBatch {
  from: number;
  to: number;
  lines: string[];
}

/** For what reads all messages of an import: longer than other statements may take. */
const FINISH_MS = 600_000;

/** Stores the lines of an import, which have been checked, in one transaction, or returns why not; then nothing is stored. */
export async function storeImport(
  pool: pg.Pool,
  { sessionId, userId }: { sessionId: string; userId: string },
  batches: AsyncIterable<ImportBatch>,
): Promise<ImportRefusal | undefined> {
  /** The lines of the statement in progress. */
  const at = { from: 1, to: 1 };
  const store = async (db: pg.PoolClient) => {
    for await (const { from, to, lines } of batches) {
      [at.from, at.to] = [from, to];
      const rest = from === 1 ? lines.slice(1) : lines;
      if (from === 1) await db.query('SELECT import_session($1, $2, $3)', [sessionId, userId, lines[0]]);
      if (rest.length > 0) await db.query('SELECT import_lines($1, $2)', [sessionId, rest]);
    }
    at.from = 1;
    await db.query(`SET LOCAL statement_timeout = ${FINISH_MS}`);
    for (const [kind, check] of [
      ['message', 'finish_import'],
      ['attachment', 'unnamed_attachment'],
    ] as const) {
      const text = `SELECT ${check}($1) AS value`;
      const query: pg.QueryConfig & { query_timeout: number } = { text, values: [sessionId], query_timeout: FINISH_MS };
      const { rows } = await db.query<{ value: string | null }>(query);
      const value = rows[0]?.value ?? null;
      if (value !== null) throw new RefusedError({ code: 'ForeignId', kind, field: 'id', value });
    }
  };
  try {
    await inTransaction(pool, 'BEGIN', store);
    return undefined;
  } catch (error) {
    const refusal = error instanceof RefusedError ? error.refusal : (duplicateIn(error) ?? invalidIn(error, at));
    if (refusal === undefined) throw error;
    return refusal;
  }
}

const UNIQUE_VIOLATION = '23505';
const DUPLICATES: Readonly<Record<string, Pick<IdRefusal, 'kind' | 'field'>>> = {
  attachments_pkey: { kind: 'attachment', field: 'id' },
  attachments_by_digest: { kind: 'attachment', field: 'digest' },
  chat_messages_pkey: { kind: 'message', field: 'id' },
  chat_parts_pkey: { kind: 'part', field: 'id' },
  chat_parts_of_tool_calls: { kind: 'part', field: 'tool_call_id' },
};

function duplicateIn(error: unknown): IdRefusal | undefined {
  const { code, constraint = '', detail = '' } = error as pg.DatabaseError;
  const found = code === UNIQUE_VIOLATION ? DUPLICATES[constraint] : undefined;
  const value = /=\([^,]*, (?:\\x)?(?<value>.*)\) already exists\.$/s.exec(detail)?.groups?.['value'];
  return found && value !== undefined ? { code: 'DuplicateId', ...found, value } : undefined;
}

/** Class 22, "data exception": a value that a type of Postgres cannot hold. */
function invalidIn(error: unknown, lines: { from: number; to: number }): ImportRefusal | undefined {
  const { code } = error as pg.DatabaseError;
  return typeof code === 'string' && /^22\w{3}$/.test(code) ? { code: 'InvalidLine', ...lines } : undefined;
}
