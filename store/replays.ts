import { z } from 'zod';
import { type ConsoleReplay, consoleReplay } from '../wire/console.ts';
import { column, type Db, jsonb, maybeOne } from './db.ts';
import { isoTime } from './results.ts';

// Replays of sessions' histories: a host asks for them, a worker claims and finishes them.

const { executions } = consoleReplay.shape;
const result = z.object({ executions, problem: z.string().nullable() });

/** What came of a replay; with a `problem` it has no executions. */
export type ReplayResult = z.output<typeof result>;

const replayRow = z.object({
  asked_at: isoTime,
  claimed_at: z.date().nullable(),
  finished_at: isoTime.nullable(),
  worker: z.string().nullable(),
  result: result.nullable(),
});

/** The newest replay of a session. Its state is `none` if nobody has asked for one. */
export async function readReplay(db: Db, sessionId: string): Promise<ConsoleReplay> {
  const row = await maybeOne(
    db,
    replayRow,
    'SELECT asked_at, claimed_at, finished_at, worker, result FROM replays WHERE session_id = $1',
    [sessionId],
  );
  if (row === undefined) {
    return { state: 'none', asked_at: null, finished_at: null, worker: null, problem: null, executions: [] };
  }
  const { asked_at, claimed_at, finished_at, worker } = row;
  const known = row.result ?? { executions: [], problem: null };
  const open = claimed_at === null ? 'queued' : 'running';
  return {
    state: finished_at === null ? open : known.problem === null ? 'done' : 'failed',
    ...{ asked_at, finished_at, worker },
    ...known,
  };
}

/** How many replays may be open: of all sessions, and of those of one user. */
interface MostReplays {
  all: number;
  ofUser: number;
}

/**
 * Asks for a replay of a session, in place of the last one. Nothing is changed while that one is open, or while there are as
 * many as may be.
 * @returns whether it was asked for
 */
export async function askForReplay(db: Db, sessionId: string, { all, ofUser }: MostReplays): Promise<boolean> {
  const asked = await column(
    db,
    z.string(),
    `INSERT INTO replays AS known (session_id)
     SELECT c.session_id FROM chat_sessions c JOIN sessions own USING (session_id)
      WHERE c.session_id = $1
        AND (SELECT count(*) < $2 AND count(*) FILTER (WHERE s.user_id = own.user_id) < $3
               FROM replays r JOIN sessions s USING (session_id) WHERE r.finished_at IS NULL)
        -- Waits for an erasure.
        FOR KEY SHARE OF c
     ON CONFLICT (session_id) DO UPDATE
        SET asked_at = clock_timestamp(), worker = NULL, claimed_at = NULL, attempts = 0, finished_at = NULL, result = NULL
      WHERE known.finished_at IS NOT NULL
     RETURNING session_id`,
    [sessionId, all, ofUser],
  );
  return asked.length > 0;
}

/** A replay that a worker has claimed; `attempt` counts from 1. */
export interface ClaimedReplay {
  session_id: string;
  attempt: number;
}

/** Claims the replay that was asked for first, also of a worker that has claimed it this long ago. Undefined: none is open. */
export function claimReplay(db: Db, worker: string, lostAfterMs: number): Promise<ClaimedReplay | undefined> {
  return maybeOne(
    db,
    z.object({ session_id: z.string(), attempt: z.number() }),
    `UPDATE replays SET worker = $1, claimed_at = clock_timestamp(), attempts = attempts + 1
      WHERE session_id = (
        SELECT session_id FROM replays
         WHERE finished_at IS NULL
           AND (claimed_at IS NULL OR claimed_at < clock_timestamp() - $2::double precision * interval '1 millisecond')
         ORDER BY asked_at LIMIT 1 FOR UPDATE SKIP LOCKED)
     RETURNING session_id, attempts AS attempt`,
    [worker, lostAfterMs],
  );
}

/** Of the row that a worker has claimed: nobody else has since. */
const CLAIMED = 'session_id = $1 AND worker = $2 AND attempts = $3 AND finished_at IS NULL';

/** Finishes a replay, unless another worker has claimed it or the session was erased. */
export async function finishReplay(
  db: Db,
  worker: string,
  { session_id, attempt }: ClaimedReplay,
  came: ReplayResult,
): Promise<void> {
  const sql = `UPDATE replays SET finished_at = clock_timestamp(), result = $4 WHERE ${CLAIMED}`;
  await db.query(sql, [session_id, worker, attempt, jsonb(came)]);
}

/** Gives a replay back that was not finished, so that the next worker claims it. Nobody has lost it: it is no attempt. */
export async function releaseReplay(db: Db, worker: string, { session_id, attempt }: ClaimedReplay): Promise<void> {
  const sql = `UPDATE replays SET worker = NULL, claimed_at = NULL, attempts = attempts - 1 WHERE ${CLAIMED}`;
  await db.query(sql, [session_id, worker, attempt]);
}
