import { z } from 'zod';
import { type ConsolePast, consolePast } from '../wire/console.ts';
import { type Db, many, maybeOne } from './db.ts';
import { isoTime, jsonColumn, MAX_PAGE_BYTES } from './results.ts';

// A session as it stood after an event of its log. Rows say when they were written last and since when they are hidden, but not
// what they were before: what a later event has changed beyond recovery is left out, and said to be.

const { shape } = consolePast;
const eventRow = consolePast
  .pick({ seq: true, kind: true, actor: true, phase: true, project_id: true, unknown: true })
  .extend({ at: isoTime, instant: z.string(), state: z.record(z.string(), jsonColumn) });
const messageRow = shape.messages.unwrap().element.extend({ created_at: isoTime, more: z.boolean() });

/** Names of other scopes: their values belong to other sessions, too. */
const OF_SESSION = `name NOT LIKE 'user:%' AND name NOT LIKE 'app:%'`;

/**
 * Why it cannot be told which messages were visible: since then an un-rewind has shown what a rewind before the event had
 * hidden, or a message that was queued then was taken back and what it had replaced was shown; or going back has shown what a
 * compaction before the event had summarized.
 */
const UNKNOWN = `
  SELECT CASE
    WHEN EXISTS (
      SELECT FROM later l JOIN session_events r
          ON r.session_id = $1 AND r.seq <= $2 AND r.kind = 'rewind' AND r.data ->> 'message_id' = l.target
       WHERE l.kind = 'unrewind')
      OR EXISTS (
      SELECT FROM chat_runs r JOIN chat_runs first
          ON first.session_id = $1 AND first.seq = coalesce((r.replaced ->> 'since')::integer, r.seq)
       WHERE r.session_id = $1 AND r.state = 'cancelled' AND r.replaced - 'model' <> '{}'
         AND first.created_at <= event.at AND r.finished_at > event.at) THEN 'unrewind'
    WHEN EXISTS (
      SELECT FROM later l JOIN chat_messages t ON t.session_id = $1 AND t.id = l.target
        JOIN session_events c ON c.session_id = $1 AND c.seq <= $2 AND c.kind = 'compaction'
        JOIN chat_messages s ON s.session_id = $1 AND s.id = c.data ->> 'message_id' AND s.position > t.position
       WHERE l.kind <> 'unrewind') THEN 'compaction' END`;

/** What each event of state wrote, in the order of their versions. */
const STATE = `
  SELECT coalesce(jsonb_object_agg(name, value) FILTER (WHERE is_set), '{}')
    FROM (
      SELECT DISTINCT ON (name) name, value, is_set
        FROM (
          SELECT (e.data ->> 'version')::bigint AS version, name, value, true AS is_set
            FROM session_events e, jsonb_each(e.data -> 'set') AS written(name, value)
           WHERE e.session_id = $1 AND e.seq <= $2 AND e.kind = 'state'
          UNION ALL
          SELECT (e.data ->> 'version')::bigint, name, NULL, false
            FROM session_events e, jsonb_array_elements_text(e.data -> 'deleted') AS removed(name)
           WHERE e.session_id = $1 AND e.seq <= $2 AND e.kind = 'state') AS changes
       WHERE ${OF_SESSION}
       ORDER BY name, version DESC) AS newest`;

/** The messages that were visible then, the newest ones, in order. A part that was written later, or is being streamed,
 * is named without its data. */
const MESSAGES = `
  SELECT id, role, created_at, parts, found > $3 OR bytes_to_end > $4 AS more
    FROM (
      SELECT m.id, m.role, m.position, m.created_at, p.parts, count(*) OVER () AS found,
             row_number() OVER (ORDER BY m.position DESC) AS nth,
             sum(p.bytes) OVER (ORDER BY m.position DESC) AS bytes, sum(p.bytes) OVER () AS bytes_to_end
        FROM (
          SELECT id, role, position, created_at FROM chat_messages
           WHERE session_id = $1 AND created_at <= $2::timestamptz AND (hidden_at IS NULL OR hidden_at > $2::timestamptz)
           ORDER BY position DESC LIMIT $3 + 1) AS m,
        LATERAL (
          SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'type', type, 'data', CASE WHEN updated_at <= $2::timestamptz AND NOT is_streaming THEN data END)
                   ORDER BY index), '[]') AS parts, coalesce(sum(octet_length(data::text)), 0) AS bytes
            FROM (SELECT *, EXISTS (SELECT FROM chat_runs r
                                     WHERE r.session_id = $1 AND r.state IN ('running', 'waiting')
                                       AND r.answer_id = m.id AND index >= r.settled_parts) AS is_streaming
                    FROM chat_parts
                   WHERE session_id = $1 AND message_id = m.id AND created_at <= $2::timestamptz) AS then_stored) AS p
    ) AS page
   WHERE nth = 1 OR (nth <= $3 AND bytes <= $4)
   ORDER BY position`;

/** Undefined: the session has no such event, or it was deleted by age. */
export async function readPast(
  db: Db,
  sessionId: string,
  { seq, limit }: { seq: number; limit: number },
): Promise<ConsolePast | undefined> {
  const event = await maybeOne(
    db,
    eventRow,
    `WITH later AS (
       SELECT kind, coalesce(data ->> 'replaced', data ->> 'message_id') AS target FROM session_events
        WHERE session_id = $1 AND seq > $2 AND kind IN ('rewind', 'unrewind', 'edit', 'regenerate'))
     SELECT seq, at, at::text AS instant, kind, actor,
            coalesce((SELECT data ->> 'to' FROM session_events WHERE session_id = $1 AND seq <= $2 AND kind = 'transition'
                       ORDER BY seq DESC LIMIT 1), 'chatting') AS phase,
            (SELECT data ->> 'project_id' FROM session_events
              WHERE session_id = $1 AND seq <= $2 AND kind = 'transition' AND data ->> 'project_id' IS NOT NULL
              ORDER BY seq DESC LIMIT 1) AS project_id,
            (${UNKNOWN}) AS unknown, (${STATE}) AS state
       FROM session_events event WHERE session_id = $1 AND seq = $2`,
    [sessionId, seq],
  );
  if (event === undefined) return undefined;
  const { instant, ...stood } = event;
  if (stood.unknown !== null) return { ...stood, messages: null, more: false };
  const rows = await many(db, messageRow, MESSAGES, [sessionId, instant, limit, MAX_PAGE_BYTES]);
  const messages = rows.map(({ more: _more, ...message }) => message);
  return { ...stood, messages, more: rows[0]?.more ?? false };
}
