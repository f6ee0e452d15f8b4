import { z } from 'zod';
import type { AnswerSnapshot } from '../domain/rows-to-chunks.ts';
import { RUN_STATES } from '../domain/runs.ts';
import type { Cursor } from '../domain/seen-part.ts';
import { call, type Db, jsonb, many } from './db.ts';
import { jsonColumn } from './results.ts';
import { retry } from './status.ts';

const answerRow = z.object({
  user_message_id: z.string(),
  message_id: z.string(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  run_state: z.enum(RUN_STATES),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  retry: retry.nullable(),
  /** Progress of the running tool. */
  progress: z.object({ tool_call_id: z.string(), data: jsonColumn }).nullable(),
  /** The newest compaction of the run. */
  compaction: z.record(z.string(), jsonColumn).nullable(),
  /** Calls of children that wait for approvals or pages, while it waits for a child; null: there are none. */
  questions: jsonColumn,
  /** While it is queued: number of open runs ahead of it. */
  position: z.number().nullable(),
  paused: z.boolean(),
  parts: z
    .array(
      z.object({
        id: z.string(),
        index: z.number(),
        data: z.looseObject({ type: z.string() }),
        text: z.string().nullable(),
        text_start: z.number().nullable(),
      }),
    )
    .nullable(),
});

const foundRow = z.object({ place: z.number(), answer: z.looseObject({ too_large: z.boolean().nullable() }) });

/** A snapshot of an answer and its run. */
export type Answer = AnswerSnapshot & Omit<z.output<typeof answerRow>, 'parts'>;

/** Which answer a user reads, and from where on. */
export interface AnswerRequest {
  userId: string;
  sessionId: string;
  runSeq: number;
  cursor: Cursor;
}

/**
 * Reads several answers from their cursors on, in one statement and so in one snapshot.
 * @param maxBytes limit of an answer's parts as stored; an answer that exceeds it is not read, and has no function
 * @returns for each request a function that parses its answer, undefined if the user has no such run; it throws an Error if
 * the rows are not as expected, which does not affect other requests
 */
export async function readAnswers(
  db: Db,
  requests: readonly AnswerRequest[],
  { maxBytes }: { maxBytes?: number } = {},
): Promise<((() => Answer | undefined) | undefined)[]> {
  const sql = 'SELECT * FROM read_answers($1, $2)';
  const rows = await many(db, foundRow, sql, [jsonb(requests.map(written)), maxBytes ?? null]);
  const found = new Map(rows.map(({ place, answer }) => [place, answer]));
  return requests.map(({ sessionId }, place) => {
    const answer = found.get(place);
    if (answer === undefined) return () => undefined;
    return answer.too_large === true ? undefined : () => parsed(sessionId, answer);
  });
}

/** A request as the SQL function takes it. */
function written({ userId, sessionId, runSeq, cursor }: AnswerRequest, place: number) {
  const units = Object.fromEntries(cursor.parts.map((part) => [part.id, part.units]));
  return { place, session_id: sessionId, user_id: userId, run: runSeq, index: cursor.index, units };
}

function parsed(sessionId: string, found: unknown): Answer {
  const { parts, ...answer } = answerRow.parse(found);
  return { ...answer, session_id: sessionId, parts: parts ?? [] };
}

/** Number of the run in flight, else of the first queued one unless an error paused the queue; null: the session is idle. */
export function headRun(db: Db, sessionId: string): Promise<number | null> {
  return call(db, z.number().nullable(), 'head_run', [sessionId]);
}
