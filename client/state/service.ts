import { isAlias, MAX_ALIAS_BYTES } from '../../domain/alias.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { actionsOf, changesOf, lasting } from '../../domain/state-changes.ts';
import { fullName, StateError } from '../../domain/state-keys.ts';
import { stateValue } from '../../domain/state-value.ts';
import { handOver, State } from '../../domain/state.ts';
import { byteLength, cleanText, type Json } from '../../domain/text.ts';
import type { NewStateEvent, SeenSession, StateSessionKey, StoredStateSession } from '../../store/state.ts';
import { type Event, EventActions } from './event.ts';
import {
  advanceSession,
  eventOf,
  fenced,
  inOrder,
  type StoredOutcome,
  refresh,
  secondsOf,
  seenOf,
  type Session,
  type SessionLike,
  storedTime,
  valuesOf,
} from './session.ts';

/** An event as JSON, with its content. */
const MAX_EVENT_BYTES = 1024 * 1024;

const MAX_NAME_BYTES = 128;

export interface CreateSessionRequest {
  appName: string;
  userId: string;
  /** The initial state; its `temp:` keys are dropped. */
  state?: Readonly<Record<string, unknown>> | undefined;
  /** An id of the caller's own, unique per app and user; default a new one. */
  sessionId?: string | undefined;
}

/** Identifies a session. */
export interface SessionKey {
  appName: string;
  userId: string;
  sessionId: string;
}

export interface GetSessionRequest extends SessionKey {
  /** Which events to read; default all. */
  config?: { numRecentEvents?: number | undefined; afterTimestamp?: number | undefined } | undefined;
}

export interface ListSessionsRequest {
  appName: string;
  /** Unset: the sessions of every user. */
  userId?: string | undefined;
  limit?: number | undefined;
  /** Index of the first session; `page`, from 1, goes before it and requires `limit`. */
  offset?: number | undefined;
  page?: number | undefined;
  /** By `lastUpdateTime`; default by id. */
  order?: 'asc' | 'desc' | undefined;
}

/** A page of sessions, without their state and events. */
export interface ListSessionsResponse {
  sessions: Session[];
  page: number;
  limit: number;
  totalItems: number;
  totalPages: number;
}

/** Where sessions are stored. */
export interface SessionStore {
  /** Undefined: the app's user has a session with this id. */
  create(
    key: { app: string; user: string; alias: string | null },
    initial: Pick<NewStateEvent, 'event' | 'changes'>,
  ): Promise<StoredStateSession | undefined>;
  get(
    key: StateSessionKey,
    events: { recent: number | null; after: number | null },
  ): Promise<StoredStateSession | undefined>;
  append(key: StateSessionKey, event: NewStateEvent, seen: SeenSession): Promise<Appended>;
  list(
    of: { app: string; user: string | null },
    page: { limit: number | null; offset: number; order: 'asc' | 'desc' | null },
  ): Promise<{ items: { id: string; user_id: string; at: number }[]; total: number }>;
  delete(key: StateSessionKey): Promise<void>;
}

/** `fresh`: the session, where the writer has missed something. `repeat`: the event had been stored before. */
export type Appended = (StoredOutcome & { fresh?: StoredStateSession }) | { repeat: true; fresh: StoredStateSession };

/** Sessions with scoped state. State changes only through the events that `appendEvent` stores. */
export class SessionService {
  private readonly store: SessionStore;

  constructor(store: SessionStore) {
    this.store = store;
  }

  /**
   * Opens a session.
   * @throws {PerdureError} `SessionExists`; `BadRequest` or `TooLarge`, naming the path to what was refused
   */
  async createSession({ appName, userId, state = {}, sessionId }: CreateSessionRequest): Promise<Session> {
    const changes = lasting(changesOf({ stateDelta: state }));
    const { stateDelta } = actionsOf(changes);
    const event = {
      id: 'initial',
      invocationId: '',
      author: 'system',
      timestamp: Date.now() / 1_000,
      actions: { stateDelta },
    };
    const stored = await this.store.create(
      { app: named(appName, 'appName'), user: named(userId, 'userId'), alias: sessionId ? ownId(sessionId) : null },
      { event, changes },
    );
    if (stored !== undefined) return sessionOf({ appName, userId, id: sessionId || stored.session_id }, stored);
    throw new PerdureError(
      'SessionExists',
      `sessionId: the user has a session ${JSON.stringify(sessionId)} in this app`,
    );
  }

  /** A session with its merged state and its events; undefined: there is none. */
  async getSession({ appName, userId, sessionId, config = {} }: GetSessionRequest): Promise<Session | undefined> {
    const key = keyOf({ appName, userId, sessionId });
    if (key === undefined) return undefined;
    const recent = wholeNumber(config.numRecentEvents, 'config.numRecentEvents') || null;
    const after = finite(config.afterTimestamp ?? 0, 'config.afterTimestamp') || null;
    const stored = await this.store.get(key, { recent, after });
    return stored && sessionOf({ appName, userId, id: sessionId }, stored);
  }

  /**
   * The sessions of a user or of an app.
   * @throws {PerdureError} `BadRequest`, naming the path to what was refused
   */
  async listSessions({
    appName,
    userId,
    limit,
    offset = 0,
    page,
    order,
  }: ListSessionsRequest): Promise<ListSessionsResponse> {
    if (page !== undefined && limit === undefined) throw new StateError('limit', 'a number, because page is given');
    if (order !== undefined && order !== 'asc' && order !== 'desc') throw new StateError('order', '"asc" or "desc"');
    const length = wholeNumber(limit, 'limit') ?? null;
    const isPaged = length !== null && page !== undefined;
    const start = isPaged ? ((wholeNumber(page, 'page') ?? 1) - 1) * length : (wholeNumber(offset, 'offset') ?? 0);
    const { items, total } = await this.store.list(
      { app: named(appName, 'appName'), user: userId === undefined ? null : named(userId, 'userId') },
      { limit: length, offset: Math.max(0, start), order: order ?? null },
    );
    const sessions = items.map((item) => listedSession(appName, item));
    if (length === null) return { sessions, page: 1, limit: total, totalItems: total, totalPages: total === 0 ? 0 : 1 };
    const number = isPaged ? page : length === 0 ? 1 : Math.floor(start / length) + 1;
    const totalPages = length === 0 ? 0 : Math.ceil(total / length);
    return { sessions, page: number, limit: length, totalItems: total, totalPages };
  }

  /** Deletes a session with its state and events, if there is one. State of its user and app stays, and so do their events. */
  async deleteSession(session: SessionKey): Promise<void> {
    const key = keyOf(session);
    if (key !== undefined) await this.store.delete(key);
  }

  /**
   * Stores an event and the changes of state in its actions: all or nothing, once per event id. Brings `session` up to date,
   * and returns the event without its `temp:` changes. A partial event is returned as it is.
   *
   * A session object that has missed changes can still add to the session, but not write a key that another writer changed.
   * @throws {PerdureError} `StaleSession`: read the session again; `SessionNotFound`; `EventConflict`: another event has this
   * id; `BadRequest` or `TooLarge`, naming the path to what was refused
   */
  async appendEvent<E extends Event>({ session, event }: { session: SessionLike; event: E }): Promise<E> {
    if (event.partial === true) return event;
    const key = keyOf({ ...session, sessionId: session.id });
    if (key === undefined)
      throw new PerdureError('SessionNotFound', 'session: expected an existing session of this app and user');
    const allChanges = changesOf(event.actions ?? {});
    const timestamp = finite(event.timestamp ?? Date.now() / 1_000, 'event.timestamp');
    Object.assign(event, { id: event.id || newId('evt'), timestamp });
    event.actions = withoutTemp(new EventActions(event.actions));
    const [stored, changes] = [eventJson(event), lasting(allChanges)];
    const handedOver = handOver(session.state, allChanges);
    const names = changes.filter(({ increment }) => increment === undefined).map((change) => fullName(change));
    return inOrder(session.state, names, async (namesBehind) => {
      const known = session.seen;
      const append: NewStateEvent = {
        event: stored,
        changes: known === undefined ? changes : changes.map((change) => fenced(change, known.versions)),
        actor: 'user',
      };
      const seen = { at: storedTime(session), seq: known?.seq ?? 0, versions: known !== undefined };
      const done = await this.store.append(key, append, seen).catch((error: unknown) => {
        handedOver('failed');
        throw error;
      });
      handedOver('stored');
      if (done.fresh !== undefined) refresh(session, done.fresh, { event, ...done, namesBehind: namesBehind() });
      else if (!('repeat' in done)) advanceSession(session, event, done);
      return event;
    });
  }
}

function sessionOf(key: Pick<Session, 'appName' | 'userId' | 'id'>, stored: StoredStateSession): Session {
  return {
    ...key,
    state: new State(valuesOf(stored), { incomplete: new Set(stored.incomplete) }),
    events: stored.events.map(eventOf),
    lastUpdateTime: secondsOf(stored.at),
    seen: seenOf(stored),
  };
}

function listedSession(appName: string, { id, user_id, at }: { id: string; user_id: string; at: number }): Session {
  return { id, appName, userId: user_id, state: new State(), events: [], lastUpdateTime: secondsOf(at) };
}

function withoutTemp(actions: EventActions): EventActions {
  const { stateDelta, stateDeletions, stateIncrements, ...rest } = actions;
  const keep = <T>(values: Readonly<Record<string, T>>) =>
    Object.fromEntries(Object.entries(values).filter(([name]) => !name.startsWith(State.TEMP_PREFIX)));
  return new EventActions({
    ...rest,
    stateDelta: keep(stateDelta),
    ...(stateIncrements && { stateIncrements: keep(stateIncrements) }),
    ...(stateDeletions && { stateDeletions: stateDeletions.filter((name) => !name.startsWith(State.TEMP_PREFIX)) }),
  });
}

/** @throws {StateError} naming what JSON cannot carry; `TooLarge` */
function eventJson(event: Event): Record<string, Json> {
  let json: string;
  try {
    json = JSON.stringify(event);
  } catch (error) {
    throw new StateError('event', `a value that JSON can carry (${(error as Error).message.split('\n')[0]})`);
  }
  const bytes = byteLength(json);
  if (bytes > MAX_EVENT_BYTES)
    throw new StateError('event', `at most ${MAX_EVENT_BYTES} bytes as JSON, not ${bytes}`, 'TooLarge');
  if (event.id.length > MAX_NAME_BYTES) throw new StateError('event.id', `at most ${MAX_NAME_BYTES} characters`);
  return stateValue(JSON.parse(json), 'event') as Record<string, Json>;
}

function finite(value: number, field: string): number {
  if (Number.isFinite(value)) return value;
  throw new StateError(field, 'a finite number: epoch seconds');
}

function wholeNumber(value: number | undefined, field: string): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) return value;
  throw new StateError(field, 'a whole number of at least 0');
}

function isName(name: unknown): name is string {
  return typeof name === 'string' && name !== '' && byteLength(name) <= MAX_NAME_BYTES && name === cleanText(name);
}

function named(name: unknown, field: string): string {
  if (isName(name)) return name;
  throw new StateError(field, `a name of 1 to ${MAX_NAME_BYTES} bytes`);
}

function ownId(sessionId: string): string {
  if (typeof sessionId === 'string' && isAlias(sessionId) && !sessionId.startsWith('ses_')) return sessionId;
  throw new StateError(
    'sessionId',
    `an id of 1 to ${MAX_ALIAS_BYTES} bytes without control characters that does not begin with "ses_"`,
  );
}

/** The key of a session that can exist. */
function keyOf({ appName, userId, sessionId }: SessionKey): StateSessionKey | undefined {
  const isPossible = isName(appName) && isName(userId) && typeof sessionId === 'string' && isAlias(sessionId);
  return isPossible ? { app: appName, user: userId, id: sessionId } : undefined;
}
