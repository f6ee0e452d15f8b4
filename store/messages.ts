import { z } from 'zod';
import type { Attributes } from '../domain/attributes.ts';
import type { PartData } from '../domain/part-data.ts';
import { RUN_STATES } from '../domain/runs.ts';
import { call, callAndNotify, column, type Db, many } from './db.ts';
import { childRunRow, MAX_PAGE_BYTES, sessionMark } from './results.ts';
import { settlePartData } from './settle-part-data.ts';

/** A model, `provider/model`, and one of its variants. */
export interface ChosenModel {
  ref: string;
  variant: string | null;
}

/** A valid user message, to be accepted. */
export interface NewMessage {
  id: string;
  /** The id of its answer. */
  answerId: string;
  parts: { id: string; data: PartData }[];
  /** With the model that the message names, if any, as `model`: { provider_id, model_id, variant? }. */
  metadata: Record<string, unknown>;
  /** Null: the model used last. */
  model: ChosenModel | null;
  /** What the sign-in hook passed on; null: nothing. */
  attributes: Attributes | null;
}

const acceptance = z.object({
  ok: z.literal(true),
  accepted: z.boolean(),
  /** Of a repeat: the message's newest version. */
  message_id: z.string(),
  run_seq: z.number(),
  state: z.enum(RUN_STATES),
  /** Error code of a repeat's run. */
  code: z.string().nullish(),
  /** Number of open runs ahead of it. */
  position: z.number(),
  model: z.string().nullable(),
  agent: z.string(),
  ...sessionMark.shape,
  /** The run that an edit or a new answer has ended. */
  aborted_run: z.number().nullish(),
  /** Runs of children that it has ended. */
  children: z.array(childRunRow).nullish(),
});

const acceptanceRefusal = z.object({
  ok: z.literal(false),
  code: z.enum([
    'SessionNotFound',
    'ChildSession',
    'MessageConflict',
    'TooMany',
    'TooManyAnswers',
    'MessageNotFound',
    'NotUserMessage',
    'MessageHidden',
  ]),
  cause: z.string().exactOptional(),
});

const acceptanceResult = z.discriminatedUnion('ok', [acceptance, acceptanceRefusal]);

/** An accepted message's run. `accepted` false: the message had been accepted before. */
export type Acceptance = z.infer<typeof acceptance>;

/** Why a message was not accepted; nothing was written. */
export type AcceptanceRefusal = z.infer<typeof acceptanceRefusal>;

/**
 * Accepts a message for a user's session, or returns why not. Once this returns, the message is stored.
 * @param notify sends the pointer `accepted`, too
 */
export function acceptMessage(
  db: Db,
  session: { sessionId: string; userId: string },
  message: NewMessage,
  { maxQueue, notify }: { maxQueue: number; notify: boolean },
): Promise<Acceptance | AcceptanceRefusal> {
  const { sessionId, userId } = session;
  return (notify ? callAndNotify : call)(db, acceptanceResult, 'accept_message', [
    ...[sessionId, userId, ...argumentsOf(message), maxQueue],
    attributesOf(message),
  ]);
}

/** Replaces the user message `edited` by another one, or returns why not. */
export function editMessage(
  db: Db,
  session: { sessionId: string; userId: string },
  edited: string,
  { message, maxQueue }: { message: NewMessage; maxQueue: number },
): Promise<Acceptance | AcceptanceRefusal> {
  const { sessionId, userId } = session;
  return call(db, acceptanceResult, 'edit_message', [
    ...[sessionId, userId, edited, ...argumentsOf(message), maxQueue],
    attributesOf(message),
  ]);
}

function argumentsOf({ id, answerId, parts, metadata, model }: NewMessage): unknown[] {
  const rows = parts.map((part) => ({ id: part.id, type: part.data.type, data: part.data }));
  return [id, answerId, JSON.stringify(rows), JSON.stringify(metadata), model?.ref ?? null];
}

function attributesOf({ attributes }: Pick<NewMessage, 'attributes'>): string | null {
  return attributes && JSON.stringify(attributes);
}

/** A user message to answer again. */
export interface NewAnswer {
  messageId: string;
  /** The answer that the caller has; if a newer one has replaced it, this is a repeat. */
  replaces: string | null;
  answerId: string;
  /** Null: the model used last. */
  model: ChosenModel | null;
  /** What the sign-in hook passed on; null: what it did with the message's last run. */
  attributes: Attributes | null;
}

/** Makes a new run of a user message, or returns why not. */
export function regenerateAnswer(
  db: Db,
  session: { sessionId: string; userId: string },
  answer: NewAnswer,
): Promise<Acceptance | AcceptanceRefusal> {
  const { sessionId, userId } = session;
  const { messageId, replaces, answerId, model } = answer;
  return call(db, acceptanceResult, 'regenerate_answer', [
    ...[sessionId, userId, messageId, replaces, answerId, model?.ref ?? null],
    ...[attributesOf(answer), model?.variant ?? null],
  ]);
}

const messageRow = z.object({
  id: z.string(),
  role: z.enum(['user', 'assistant', 'system']),
  metadata: z.record(z.string(), z.unknown()),
  created_at: z.date(),
  parts: z.array(
    z.object({ data: z.looseObject({ type: z.string() }), text: z.string().nullable(), ms: z.number().nullable() }),
  ),
});

/**
 * A stored message: an AI SDK UIMessage, except for the session's id in its metadata. If times were asked for, it has when it was
 * stored, and finished reasoning has `ms`, how long it took, unless it was stored only when it had ended.
 */
export type StoredMessage = Omit<z.output<typeof messageRow>, 'parts' | 'created_at'> & {
  parts: PartData[];
  created_at?: string;
};

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
 * most `limit` messages, fewer if they are large. The metadata of a user message has a member `turn` if its newest run was
 * stopped or failed: { state: 'aborted' | 'error', code?, message? }. `times` adds times to messages and reasoning.
 */
export async function readMessages(
  db: Db,
  sessionId: string,
  page: { after?: number | undefined; before?: number | undefined; limit: number; hidden: boolean; times?: boolean },
): Promise<MessagePage> {
  const upwards = page.after !== undefined;
  const order = `position ${upwards ? 'ASC' : 'DESC'}`;
  const rows = await many(
    db,
    messageRow.extend({ found: z.number() }),
    `SELECT id, role, CASE WHEN turn IS NULL THEN metadata ELSE metadata || jsonb_build_object('turn', turn) END AS metadata,
            created_at, parts, found
       FROM (
         SELECT m.*, p.parts, ended.turn, count(*) OVER () AS found, row_number() OVER one_by_one AS nth,
                sum(octet_length(p.parts::text) + octet_length(m.metadata::text)) OVER one_by_one AS bytes
           FROM (
             SELECT session_id, id, role, metadata, position, created_at
               FROM chat_messages
              WHERE session_id = $1
                AND ($2::bigint IS NULL OR position > $2)
                AND ($3::bigint IS NULL OR position < $3)
                ${page.hidden ? '' : 'AND hidden_at IS NULL'}
              ORDER BY ${order}
              LIMIT $4 + 1
           ) m
           CROSS JOIN LATERAL (
             SELECT coalesce(json_agg(json_build_object('data', p.data, 'text', d.text, 'ms', CASE
                      WHEN p.type = 'reasoning' AND p.data ->> 'state' = 'done'
                      THEN nullif(greatest(round(extract(epoch FROM p.updated_at - p.created_at) * 1000), 0), 0) END)
                      ORDER BY p.index), '[]') AS parts
               FROM chat_parts p
               LEFT JOIN LATERAL (
                 SELECT string_agg(d.text, '' ORDER BY d.start) AS text
                   FROM part_deltas d WHERE d.session_id = p.session_id AND d.part_id = p.id
               ) d ON true
              WHERE p.session_id = m.session_id AND p.message_id = m.id
           ) p
           LEFT JOIN LATERAL (
             SELECT jsonb_strip_nulls(jsonb_build_object(
                      'state', r.state, 'code', r.error_code, 'message', r.error_message)) AS turn
               FROM (SELECT * FROM chat_runs r
                      WHERE r.session_id = m.session_id AND r.message_id = m.id
                      ORDER BY state = 'cancelled', seq DESC LIMIT 1) r
              WHERE r.state IN ('aborted', 'error')
           ) ended ON m.role = 'user'
         WINDOW one_by_one AS (ORDER BY m.${order})
       ) page
      WHERE nth = 1 OR (nth <= $4 AND bytes <= $5)
      ORDER BY ${order}`,
    [sessionId, page.after ?? null, page.before ?? null, page.limit, MAX_PAGE_BYTES],
  );
  const items = await Promise.all(
    rows.map(async ({ found: _found, created_at, parts, ...message }) => {
      const current = parts.map(async ({ data, text, ms }) => {
        const part = await settlePartData(data, text);
        return page.times === true && ms !== null ? { ...part, ms } : part;
      });
      const at = page.times === true ? { created_at: created_at.toISOString() } : {};
      return { ...message, ...at, parts: await Promise.all(current) };
    }),
  );
  return { items: upwards ? items : items.toReversed(), more: (rows[0]?.found ?? 0) > rows.length };
}
