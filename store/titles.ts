import { z } from 'zod';
import { titleOf } from '../domain/rendezvous.ts';

/** Enough for a title after some empty lines. */
const FIRST_CHARACTERS = 400;

/**
 * Columns from which `titled` makes a session's title; `s` is its row of sessions, `c` that of chat_sessions. The first message
 * counts even if a compaction has hidden it, but not if it was cancelled or rewound.
 */
export const TITLE_SQL = `
         c.metadata ->> 'title' AS own_title,
         (SELECT left(ltrim(p.data ->> 'text', E' \\t\\r\\n'), ${FIRST_CHARACTERS})
            FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
           WHERE m.session_id = s.session_id AND m.role = 'user' AND p.type = 'text'
             AND (m.hidden_at IS NULL OR m.metadata -> 'hidden_by' ->> 'cause' = 'compaction')
           ORDER BY m.position, p.index
           LIMIT 1) AS first_text`;

/** What TITLE_SQL returns: what the user has called the session, and the beginning of its first user message. */
export const titleColumns = { own_title: z.string().nullable(), first_text: z.string().nullable() };

/** A row with its title in place of the columns of TITLE_SQL. */
export function titled<Row extends { own_title: string | null; first_text: string | null }>(
  row: Row,
): Omit<Row, 'own_title' | 'first_text'> & { title: string | null } {
  const { own_title, first_text, ...rest } = row;
  return { ...rest, title: titleOf(own_title) ?? titleOf(first_text) };
}
