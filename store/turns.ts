import { z } from 'zod';
import { toolNameOf } from '../domain/part-data.ts';
import { RUN_STATES, WAITS } from '../domain/runs.ts';
import { type Db, many } from './db.ts';

const turnRow = z
  .object({
    run_seq: z.number(),
    /** The message that it answers. */
    message_id: z.string(),
    state: z.enum(RUN_STATES),
    /** Why it ended as an error. */
    error: z.string().nullable(),
    waits_for: z
      .object({
        for: z.enum(WAITS),
        tool_call_id: z.string(),
        part: z.looseObject({ type: z.string() }),
      })
      .nullable(),
  })
  .transform(({ waits_for: wait, ...turn }) => ({
    ...turn,
    /** The tool call that it waits for: for the user's approval, or for the page's output. */
    waits_for: wait && { for: wait.for, tool: toolNameOf(wait.part), tool_call_id: wait.tool_call_id },
  }));

/** A turn of a session, and what came of it. */
export type Turn = z.output<typeof turnRow>;

/**
 * A turn of a session: that with this number, or the newest of a message; null for both: the newest one that is part of the
 * conversation. Undefined: there is none.
 */
export async function readTurn(
  db: Db,
  sessionId: string,
  { run, message }: { run: number | null; message: string | null },
): Promise<Turn | undefined> {
  const [turn] = await many(
    db,
    turnRow,
    `SELECT r.seq AS run_seq, r.message_id, r.state, coalesce(r.error_message, r.error_code) AS error,
            (SELECT jsonb_build_object('for', r.waiting -> 'for', 'tool_call_id', r.waiting -> 'tool_call_id',
                                       'part', jsonb_build_object('type', p.data -> 'type', 'toolName', p.data -> 'toolName'))
               FROM chat_parts p
              WHERE r.state = 'waiting' AND p.session_id = r.session_id AND p.tool_call_id = r.waiting ->> 'tool_call_id') AS waits_for
       FROM chat_runs r JOIN chat_messages m ON m.session_id = r.session_id AND m.id = r.message_id
      WHERE r.session_id = $1 AND r.kind = 'turn'
        AND CASE WHEN $2::integer IS NOT NULL THEN r.seq = $2
                 WHEN $3::text IS NOT NULL THEN r.seq = (SELECT (newest_run($1, $3)).seq)
                 ELSE r.state <> 'cancelled' AND out_of_sight(m) IS NULL END
      ORDER BY r.seq DESC LIMIT 1`,
    [sessionId, run, message],
  );
  return turn;
}
