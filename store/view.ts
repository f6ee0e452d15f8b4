import { z } from 'zod';
import { type Db, many } from './db.ts';

const partRow = z.object({
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  aborted: z.boolean(),
  data: z.looseObject({ type: z.string() }),
});

/** A stored message, as input of `modelView`. */
export interface ViewMessage {
  id: string;
  role: 'user' | 'assistant' | 'system';
  /** The run that wrote it was aborted. */
  aborted: boolean;
  parts: { type: string }[];
}

/**
 * The visible messages up to a turn's own that have parts: the user message `messageId` and, of its answer, the parts
 * that earlier steps settled. Messages queued after it are left out.
 *
 * One row per part, and aborted runs are read once: with any statistics, Postgres chooses a plan whose cost is linear in
 * the length of the conversation.
 */
export async function loadView(
  db: Db,
  sessionId: string,
  turn: { messageId: string; answerId: string; settledParts: number },
): Promise<ViewMessage[]> {
  const rows = await many(
    db,
    partRow,
    `SELECT m.id, m.role, p.data,
            m.id = ANY (ARRAY(SELECT answer_id FROM chat_runs WHERE session_id = $1 AND state = 'aborted')) AS aborted
       FROM chat_messages m
       JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id AND (m.id <> $3 OR p.index < $4)
      WHERE m.session_id = $1
        AND m.hidden_at IS NULL
        AND (m.id = $3 OR m.position <= (SELECT position FROM chat_messages WHERE session_id = $1 AND id = $2))
      ORDER BY m.position, p.index`,
    [sessionId, turn.messageId, turn.answerId, turn.settledParts],
  );
  const messages: ViewMessage[] = [];
  for (const { data, ...message } of rows) {
    const last = messages.at(-1);
    if (last?.id === message.id) last.parts.push(data);
    else messages.push({ ...message, parts: [data] });
  }
  return messages;
}
