import { z } from 'zod';
import { ACTORS, type Actor } from '../domain/commands.ts';
import { call, type Db, many, maybeOne } from './db.ts';

const eventRow = z.object({
  seq: z.number(),
  at: z.date().transform((date) => date.toISOString()),
  kind: z.string(),
  actor: z.enum(ACTORS),
  data: z.record(z.string(), z.unknown()),
});

/** An entry of a session's log. `at` in ISO 8601. */
export type SessionEvent = z.output<typeof eventRow>;

/** The log behind event `after`, oldest first. */
export function readEvents(db: Db, sessionId: string, after: number, limit: number): Promise<SessionEvent[]> {
  return many(
    db,
    eventRow,
    `SELECT seq, at, kind, actor, data FROM session_events
      WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
    [sessionId, after, limit],
  );
}

/**
 * Keeps the words of a command's reason where they belong; answers the number by which the command refers to them. With
 * an id of its own it is kept once.
 */
export async function logReason(
  db: Db,
  sessionId: string,
  actor: Actor,
  reason: string,
  id: string | null = null,
): Promise<number> {
  return call(db, z.coerce.number(), 'log_reason', [sessionId, actor, reason, id]);
}

/** The whole output of a tool call of which only the head went to the model. */
export async function readToolOutput(db: Db, sessionId: string, toolCallId: string): Promise<string | undefined> {
  const row = await maybeOne(
    db,
    z.object({ output: z.string() }),
    'SELECT output FROM tool_outputs WHERE session_id = $1 AND tool_call_id = $2',
    [sessionId, toolCallId],
  );
  return row?.output;
}
