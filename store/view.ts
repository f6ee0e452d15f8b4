import { z } from 'zod';
import { type Db, many } from './db.ts';

const viewRow = z.object({
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  run_state: z.string().nullable(),
  parts: z.array(z.looseObject({ type: z.string() })),
});

/** A stored message as the model's view is made from. `run_state` is that of the run that wrote an answer. */
export type ViewMessage = z.infer<typeof viewRow>;

/**
 * The visible messages up to a turn's own: the user message `messageId` and, of its answer, the parts that earlier
 * steps settled. What is queued behind it is not seen.
 */
export function loadView(
  db: Db,
  sessionId: string,
  turn: { messageId: string; answerId: string; settledParts: number },
): Promise<ViewMessage[]> {
  return many(
    db,
    viewRow,
    `SELECT m.id, m.role, r.state AS run_state, p.parts
       FROM chat_messages m
       CROSS JOIN LATERAL (
         SELECT coalesce(jsonb_agg(data ORDER BY index), '[]') AS parts
           FROM chat_parts
          WHERE session_id = m.session_id AND message_id = m.id AND (m.id <> $3 OR index < $4)
       ) p
       LEFT JOIN chat_runs r ON r.session_id = m.session_id AND r.answer_id = m.id
      WHERE m.session_id = $1
        AND m.hidden_at IS NULL
        AND (m.id = $3 OR m.position <= (SELECT position FROM chat_messages WHERE session_id = $1 AND id = $2))
      ORDER BY m.position`,
    [sessionId, turn.messageId, turn.answerId, turn.settledParts],
  );
}
