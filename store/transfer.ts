import type pg from 'pg';
import { z } from 'zod';
import { placeOfContent } from './contents.ts';
import { type Db, maybeOne, types } from './db.ts';

/** A place in an export: a message's position, and the index of its part; -1 is the message itself. */
export interface ExportPlace {
  at: number;
  part: number;
}

const TEXT = 25;

/**
 * Reads the next lines of an export, until they have 1 MiB or are those of 1,000 messages.
 * @param take is called with each line as it arrives: rows that are kept until the last one is there would fill V8's young generation
 * @returns where the next ones begin; undefined: there were none
 */
export async function exportedLines(
  db: Db,
  sessionId: string,
  { after, last }: { after: ExportPlace; last: number },
  take: (line: string) => void,
): Promise<ExportPlace | undefined> {
  const parsers: pg.CustomTypesConfig = {
    getTypeParser: (oid: number, format) => (oid === TEXT ? take : types.getTypeParser(oid, format)),
  };
  const text = 'SELECT * FROM export_lines($1, $2, $3, $4)';
  const values = [sessionId, after.at, after.part, last];
  const { rows } = await db.query<ExportPlace>({ text, values, types: parsers });
  return rows.at(-1);
}

const exportedSession = z.object({ line: z.string(), last: z.number() });
const exportedFile = z.object({ line: z.string(), content_id: z.string(), place: placeOfContent, size: z.number() });

/** The line of an attachment, and the content that follows it. */
export type ExportedFile = z.infer<typeof exportedFile>;

/** Takes the lines of messages and parts. */
export interface ExportedLines {
  add(line: string): void;
  /** Is called after some lines, and awaited before the next ones. */
  flush(): Promise<void>;
}

/**
 * Reads a session's export from one snapshot, whatever changes meanwhile: the line of the session, those of its attachments, and
 * those of its messages and their parts.
 * @returns undefined: there is no such session
 */
export function readExport(
  pool: pg.Pool,
  sessionId: string,
  lines: ExportedLines,
): Promise<{ line: string; files: ExportedFile[] } | undefined> {
  return inTransaction(pool, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', async (db) => {
    const sql = 'SELECT line, last FROM export_session($1) WHERE line IS NOT NULL';
    const session = await maybeOne(db, exportedSession, sql, [sessionId]);
    if (!session) return undefined;
    let after: ExportPlace | undefined = { at: 0, part: -1 };
    while (after !== undefined) {
      after = await exportedLines(db, sessionId, { after, last: session.last }, (line) => lines.add(line));
      await lines.flush();
    }
    const files = await ofWholeSession(db, 'SELECT * FROM export_attachments($1)', sessionId);
    return { line: session.line, files: z.array(exportedFile).parse(files) };
  });
}

/** For what reads all messages of a session: longer than other statements may take. */
const WHOLE_SESSION_MS = 600_000;

/** The rows of a statement that reads all messages of a session. To the end of the transaction others may take as long, too. */
async function ofWholeSession(db: pg.PoolClient, text: string, sessionId: string): Promise<unknown[]> {
  await db.query(`SET LOCAL statement_timeout = ${WHOLE_SESSION_MS}`);
  const query: pg.QueryConfig & { query_timeout: number } = {
    text,
    values: [sessionId],
    query_timeout: WHOLE_SESSION_MS,
  };
  return (await db.query<Record<string, unknown>>({ ...query, types })).rows;
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
  /** Each after its number and a space, with newlines between them. Bytes: as strings they would fill V8's young generation. */
  lines: Buffer;
}

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
      await db.query('SELECT import_batch($1, $2, $3)', [sessionId, userId, lines]);
    }
    at.from = 1;
    for (const [kind, check] of [
      ['message', 'finish_import'],
      ['attachment', 'unnamed_attachment'],
    ] as const) {
      const [row] = await ofWholeSession(db, `SELECT ${check}($1) AS value`, sessionId);
      const { value } = row as { value: string | null };
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
