import { z } from 'zod';
import { PerdureError } from '../domain/errors.ts';
import type { StateChange } from '../domain/state-changes.ts';
import { fullName, LASTING_SCOPES, scopeFull, staleSession, StateError } from '../domain/state-keys.ts';
import type { Json } from '../domain/text.ts';
import { call, type Db, jsonb, many, maybe } from './db.ts';
import { jsonColumn } from './results.ts';

/** A key of the state that a session sees. */
export const stateEntry = z.object({
  scope: z.enum(LASTING_SCOPES),
  key: z.string(),
  value: jsonColumn,
  version: z.number(),
});

/** Scopes that hold more than what was loaded. */
export const incompleteScopes = z.array(z.enum(LASTING_SCOPES));

const namedValues = z.record(z.string(), jsonColumn);

/** The data of a log entry of kind "state". */
const stateEventData = z.looseObject({
  event: z.record(z.string(), jsonColumn),
  version: z.number(),
  set: namedValues,
  deleted: z.array(z.string()),
});

/** Of a log entry from before there were versions: what a tool has changed. */
const toolChanges = z.object({
  delta: z.array(z.object({ scope: z.enum(LASTING_SCOPES), key: z.string(), value: jsonColumn.optional() })),
});

const logEntry = z.object({ seq: z.number(), at: z.number() });
const versionedEvent = logEntry.extend({ data: stateEventData });
const stateEvent: z.ZodType<z.output<typeof versionedEvent>> = z.union([
  versionedEvent,
  logEntry.extend({ data: toolChanges }).transform(({ seq, at, data: { delta } }) => {
    const named = delta.map((each) => [fullName(each), each.value] as const);
    const deleted = named.filter(([, value]) => value === undefined).map(([name]) => name);
    const set = Object.fromEntries(named.filter((each): each is [string, Json] => each[1] !== undefined));
    const event: Record<string, Json> = {
      id: `log:${seq}`,
      author: 'tool',
      timestamp: at,
      actions: { stateDeletions: deleted },
    };
    return { seq, at, data: { event, version: 1, set, deleted } };
  }),
]);

const stateSession = z.object({
  session_id: z.string(),
  /** Epoch microseconds of the newest event of state. */
  at: z.number(),
  /** Number of its newest event, whatever its kind. */
  seq: z.number(),
  state: z.array(stateEntry),
  incomplete: incompleteScopes,
  /** Oldest first; `at` in epoch seconds. */
  events: z.array(stateEvent),
});

/** A session of SessionService. */
export type StoredStateSession = z.output<typeof stateSession>;

const appended = z.union([
  z.object({ code: z.enum(['SessionNotFound', 'EventConflict']) }),
  z.object({ repeat: z.literal(true), fresh: stateSession }),
  z.object({
    seq: z.number(),
    at: z.number(),
    set: namedValues,
    deleted: z.array(z.string()),
    versions: z.record(z.string(), z.number()),
    fresh: stateSession.exactOptional(),
  }),
]);

/** Which session: its app, its user, and its id or the caller's own. */
export interface StateSessionKey {
  /** Null: whichever app the session has; `id` is then the session's own id, not the caller's. */
  app: string | null;
  user: string;
  id: string;
}

/** What a writer knows of a session. */
export interface SeenSession {
  at: number;
  seq: number;
  /** The changes carry the versions that their keys must have, if any; false: `at` is the fence. */
  versions: boolean;
  /** How many of the newest events that it has missed it wants; unset: all. */
  recent?: number;
}

/** An event of state to store. */
export interface NewStateEvent {
  event: Record<string, Json>;
  changes: readonly StateChange[];
  actor: 'user' | 'system';
}

/** Opens a session with its initial state; undefined: the app's user has one with this id. */
export async function createStateSession(
  db: Db,
  session: { app: string; user: string; alias: string | null; sessionId: string; agent: string },
  { event, changes }: Pick<NewStateEvent, 'event' | 'changes'>,
): Promise<StoredStateSession | undefined> {
  const { app, user, alias, sessionId, agent } = session;
  const args = [app, user, alias, sessionId, agent, jsonb(event), jsonb(changes)];
  const result = z.union([stateSession, z.object({ code: z.literal('SessionExists') })]);
  const made = await refusing(call(db, result, 'create_state_session', args));
  return 'code' in made ? undefined : made;
}

/** The `ses_` id of a session. */
export function findStateSession(db: Db, { app, user, id }: StateSessionKey): Promise<string | undefined> {
  return call(db, maybe(z.string()), 'find_state_session', [app, user, id]);
}

/** A session with its newest `recent` events, and of those the ones after `after` (epoch seconds). */
export function getStateSession(
  db: Db,
  { app, user, id }: StateSessionKey,
  { recent = null, after = null }: { recent?: number | null; after?: number | null } = {},
): Promise<StoredStateSession | undefined> {
  return call(db, maybe(stateSession), 'get_state_session', [app, user, id, recent, after]);
}

/**
 * Appends an event and applies its changes, all or none.
 * @throws {PerdureError} `SessionNotFound`, `EventConflict`, `StaleSession`, `BadRequest`, `TooLarge`
 */
export async function appendStateEvent(
  db: Db,
  { app, user, id }: StateSessionKey,
  { event, changes, actor }: NewStateEvent,
  seen: SeenSession,
): Promise<Exclude<z.output<typeof appended>, { code: string }>> {
  const args = [app, user, id, jsonb(event), jsonb(changes), jsonb(seen), actor];
  const result = await refusing(call(db, appended, 'append_state_event', args));
  if (!('code' in result)) return result;
  throw result.code === 'SessionNotFound'
    ? new PerdureError('SessionNotFound', 'session: expected an existing session of this app and user')
    : new PerdureError('EventConflict', `event.id: the session has another event ${JSON.stringify(event['id'])}`);
}

const namedValue = z.object({ name: z.string(), value: jsonColumn });

/** The state that the turn of a message sees, with `temp:`, as names and values. */
export async function loadTurnState(
  db: Db,
  { sessionId, messageId }: { sessionId: string; messageId: string },
): Promise<[string, Json][]> {
  const values = await many(
    db,
    namedValue,
    `SELECT state_name(entry ->> 'scope', entry ->> 'key') AS name, entry -> 'value' AS value
       FROM sessions s CROSS JOIN load_state(s.session_id, s.user_id) AS loaded
       CROSS JOIN jsonb_array_elements(loaded.state) AS entry
      WHERE s.session_id = $1
     UNION ALL
     SELECT 'temp:' || key, value FROM chat_runs r CROSS JOIN jsonb_each(r.temp)
      WHERE r.session_id = $1 AND r.message_id = $2 AND r.state = 'running'`,
    [sessionId, messageId],
  );
  return values.map(({ name, value }) => [name, value]);
}

const listed = z.object({ id: z.string(), user_id: z.string(), at: z.number(), total: z.number() });

/** Sessions of an app, or of one user of it, and how many there are in all. */
export async function listStateSessions(
  db: Db,
  { app, user = null }: { app: string; user?: string | null },
  { limit = null, offset = 0, order = null }: { limit?: number | null; offset?: number; order?: 'asc' | 'desc' | null },
): Promise<{ items: Omit<z.output<typeof listed>, 'total'>[]; total: number }> {
  const direction = order === 'asc' ? 'c.state_updated_at,' : order === 'desc' ? 'c.state_updated_at DESC,' : '';
  const from = `FROM sessions s JOIN chat_sessions c USING (session_id)
                WHERE c.app = $1 AND ($2::text IS NULL OR s.user_id = $2)`;
  const items = await many(
    db,
    listed,
    `SELECT coalesce((SELECT min(alias) FROM session_aliases a WHERE a.session_id = s.session_id), s.session_id) AS id,
            s.user_id, state_time(c.state_updated_at) AS at, count(*) OVER () AS total
       ${from} ORDER BY ${direction} s.session_id LIMIT $3 OFFSET $4`,
    [app, user, limit, offset],
  );
  const total =
    items[0]?.total ?? (await many(db, z.object({ n: z.number() }), `SELECT count(*) AS n ${from}`, [app, user]))[0]?.n;
  return { items, total: total ?? 0 };
}

/** @throws {PerdureError} what change_state() refused */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { code, detail = '' } = error as { code?: string; detail?: string };
    if (code === 'PD002') throw staleSession(detail);
    if (code === 'PD003')
      throw new StateError(`stateIncrements[${JSON.stringify(detail)}]`, 'a key that holds a number');
    if (code === 'PD004') throw scopeFull(detail);
    // The sum of a number and an increment that no double can hold.
    if (code === '22003') throw new StateError('stateIncrements', 'sums that are finite numbers');
    throw error;
  }
}
