import { z } from 'zod';
import { PHASES } from '../domain/phases.ts';
import type { PartData } from '../domain/part-data.ts';
import { RUN_STATES } from '../domain/runs.ts';
import { call, column, type Db, many } from './db.ts';
import { MAX_PAGE_BYTES } from './results.ts';
import { settlePartData } from './settle-part.ts';

/** A valid user message, to be accepted. */
export interface NewMessage {
  id: string;
  /** The id of its answer. */
  answerId: string;
  parts: { id: string; data: PartData }[];
  metadata: Record<string, unknown>;
  /** `provider/model`; null: the model used last. */
  model: string | null;
}

const acceptance = z.object({
  ok: z.literal(true),
  accepted: z.boolean(),
  run_seq: z.number(),
  state: z.enum(RUN_STATES),
  /** Error code of a repeat's run. */
  code: z.string().nullish(),
  /** Number of open runs ahead of it. */
  position: z.number(),
  model: z.string().nullable(),
  agent: z.string(),
  phase: z.enum(PHASES),
  project_id: z.string().nullable(),
});

const acceptanceRefusal = z.object({
  ok: z.literal(false),
  code: z.enum(['SessionNotFound', 'MessageConflict', 'TooMany']),
});

const acceptanceResult = z.discriminatedUnion('ok', [acceptance, acceptanceRefusal]);

/** An accepted message's run. `accepted` false: the message had been accepted before. */
export type Acceptance = z.infer<typeof acceptance>;

/** Why a message was not accepted; nothing was written. */
export type AcceptanceRefusal = z.infer<typeof acceptanceRefusal>;

/** Accepts a message for a user's session, or returns why not. Once this returns, the message is stored. */
export function acceptMessage(
  db: Db,
  session: { sessionId: string; userId: string },
  message: NewMessage,
  maxQueue: number,
): Promise<Acceptance | AcceptanceRefusal> {
  const parts = message.parts.map(({ id, data }) => ({ id, type: data.type, data }));
  return call(db, acceptanceResult, 'accept_message', [
    session.sessionId,
    session.userId,
    message.id,
    message.answerId,
    JSON.stringify(parts),
    JSON.stringify(message.metadata),
    message.model,
    maxQueue,
  ]);
}

const messageRow = z.object({
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  metadata: z.record(z.string(), z.unknown()),
  parts: z.array(z.object({ data: z.looseObject({ type: z.string() }), text: z.string().nullable() })),
});

/** A stored message: an AI SDK UIMessage, except for the session's id in its metadata. */
export type StoredMessage = Omit<z.output<typeof messageRow>, 'parts'> & { parts: PartData[] };

/** The position of a message; undefined: the session has no such message. */
export async function messagePosition(db: Db, sessionId: string, messageId: string): Promise<number | undefined> {
  const sql = 'SELECT position FROM chat_messages WHERE session_id = $1 AND id = $2';
  const [position] = await column(db, z.number(), sql, [sessionId, messageId]);
  return position;
}

/** A page of messages in order, and whether there are more in the direction of reading. */
export interface MessagePage {
  items: StoredMessage[];
  more: boolean;
}

/**
 * Reads messages with their current parts, including streamed text: those after position `after`, or those before position
 * `before`, or the last ones. `hidden` includes messages that a rewind, an edit, a compaction or a cancel has hidden. At
 * most `limit` messages, fewer if they are large.
 */
export async function readMessages(
  db: Db,
  sessionId: string,
  page: { after?: number | undefined; before?: number | undefined; limit: number; hidden: boolean },
): Promise<MessagePage> {
  const upwards = page.after !== undefined;
  const order = `position ${upwards ? 'ASC' : 'DESC'}`;
  const rows = await many(
    db,
    messageRow.extend({ found: z.number() }),
    `SELECT id, role, metadata, parts, found
       FROM (
         SELECT m.*, p.parts, count(*) OVER () AS found, row_number() OVER one_by_one AS nth,
                sum(octet_length(p.parts::text) + octet_length(m.metadata::text)) OVER one_by_one AS bytes
           FROM (
             SELECT session_id, id, role, metadata, position
               FROM chat_messages
              WHERE session_id = $1
                AND ($2::bigint IS NULL OR position > $2)
                AND ($3::bigint IS NULL OR position < $3)
                AND ($4 OR hidden_at IS NULL)
              ORDER BY ${order}
              LIMIT $5 + 1
           ) m
           CROSS JOIN LATERAL (
             SELECT coalesce(json_agg(json_build_object('data', p.data, 'text', d.text) ORDER BY p.index), '[]') AS parts
               FROM chat_parts p
               LEFT JOIN LATERAL (
                 SELECT string_agg(d.text, '' ORDER BY d.start) AS text
                   FROM part_deltas d WHERE d.session_id = p.session_id AND d.part_id = p.id
               ) d ON true
              WHERE p.session_id = m.session_id AND p.message_id = m.id
           ) p
         WINDOW one_by_one AS (ORDER BY m.${order})
       ) page
      WHERE nth = 1 OR (nth <= $5 AND bytes <= $6)
      ORDER BY ${order}`,
    [sessionId, page.after ?? null, page.before ?? null, page.hidden, page.limit, MAX_PAGE_BYTES],
  );
  const items = await Promise.all(
    rows.map(async ({ found: _found, parts, ...message }) => {
      return { ...message, parts: await Promise.all(parts.map(({ data, text }) => settlePartData(data, text))) };
    }),
  );
  return { items: upwards ? items : items.toReversed(), more: (rows[0]?.found ?? 0) > rows.length };
}
