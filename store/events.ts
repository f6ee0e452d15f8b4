import { z } from 'zod';
import { ACTORS, type Actor } from '../domain/commands.ts';
import { call, type Db, many, maybeOne } from './db.ts';
import { isoTime } from './results.ts';

const eventRow = z.object({
  seq: z.number(),
  at: isoTime,
  kind: z.string(),
  actor: z.enum(ACTORS),
  data: z.record(z.string(), z.unknown()),
});

/** An entry of a session's log. */
export type SessionEvent = z.output<typeof eventRow>;

/** The events after number `after`, oldest first. */
export function readEvents(db: Db, sessionId: string, after: number, limit: number): Promise<SessionEvent[]> {
  return many(
    db,
    eventRow,
    `SELECT seq, at, kind, actor, data FROM session_events
      WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
    [sessionId, after, limit],
  );
}

/** Stores the text of a command's reason, once per `id`, and returns the number of its event. */
export function logReason(db: Db, sessionId: string, actor: Actor, reason: string, id: string): Promise<number> {
  return call(db, z.number(), 'log_reason', [sessionId, actor, reason, id]);
}

/** The full output of a tool call that was truncated for the model. */
export async function readToolOutput(db: Db, sessionId: string, toolCallId: string): Promise<string | undefined> {
  const row = await maybeOne(
    db,
    z.object({ output: z.string() }),
    'SELECT output FROM tool_outputs WHERE session_id = $1 AND tool_call_id = $2',
    [sessionId, toolCallId],
  );
  return row?.output;
}
