import type { StateChange } from '../../domain/state-changes.ts';
import { fullName } from '../../domain/state-keys.ts';
import { adoptState, type State } from '../../domain/state.ts';
import type { Json } from '../../domain/text.ts';
import type { StoredStateSession } from '../../store/state.ts';
import { Event } from './event.ts';

/** What a session object knows of the stored session, for the fence. */
interface Seen {
  /** Number of the newest event that the object knows of. Older ones may have been left out when it was read. */
  seq: number;
  /** Versions of the keys of `state`. */
  versions: Readonly<Record<string, number>>;
}

/** A session object as `appendEvent` accepts it; its state may be a plain object. */
export interface SessionLike {
  id: string;
  appName: string;
  userId: string;
  state: Record<string, unknown>;
  events: Event[];
  lastUpdateTime: number;
  /** Missing in an object that was not read from a service: then only `lastUpdateTime` says what its writer knows. */
  seen?: Seen;
}

/** A session with its merged state, as it was read. */
export interface Session extends SessionLike {
  readonly state: State;
  /** Epoch seconds of the newest event, by the clock of the store; strictly increasing. */
  lastUpdateTime: number;
}

/** Microseconds per second. */
const MICROS = 1_000_000;

/** `lastUpdateTime` as the store counts it. */
export function storedTime(session: Pick<SessionLike, 'lastUpdateTime'>): number {
  return Math.round(session.lastUpdateTime * MICROS);
}

export function secondsOf(at: number): number {
  return at / MICROS;
}

/** The values of a stored session's state by full name. */
export function valuesOf({ state }: Pick<StoredStateSession, 'state'>): [string, Json][] {
  return state.map((entry) => [fullName(entry), entry.value]);
}

/** The versions of a stored session's keys by full name. */
export function versionsOf({ state }: Pick<StoredStateSession, 'state'>): Record<string, number> {
  return Object.fromEntries(state.map((entry) => [fullName(entry), entry.version]));
}

export function seenOf(stored: StoredStateSession): Seen {
  return { seq: stored.seq, versions: versionsOf(stored) };
}

/** A change that happens only if the key still has the version that its writer knows. */
export function fenced(change: StateChange, versions: Seen['versions']): StateChange {
  return change.increment === undefined ? { ...change, seen: versionIn(versions, fullName(change)) } : change;
}

/** Leaves keys their earlier versions: who wrote them in a session object has not seen what others have stored there since. */
export function holdBack({ seq, versions }: Seen, names: readonly string[], earlier: Seen['versions'] = {}): Seen {
  return {
    seq,
    versions: { ...versions, ...Object.fromEntries(names.map((name) => [name, versionIn(earlier, name)])) },
  };
}

/** The version of a key, 0 for none. A name such as `toString` is a member of every object. */
function versionIn(versions: Seen['versions'], name: string): number {
  return (Object.hasOwn(versions, name) ? versions[name] : undefined) ?? 0;
}

/** An event of a session's log; values that it added to are in `stateDelta`. */
export function eventOf({ data }: StoredStateSession['events'][number]): Event {
  const { event, set } = data;
  // The sums stand for the increments.
  const { stateIncrements: _added, ...actions } = (event.actions ?? {}) as Record<string, Json>;
  return new Event({ ...event, actions: { ...actions, stateDelta: { ...set } } });
}

/** What storing an event made of a session. */
export interface StoredOutcome {
  at: number;
  seq: number;
  set: Record<string, Json>;
  deleted: readonly string[];
  versions: Record<string, number>;
}

/** The appends to session objects with the same `state`. */
interface Appends {
  last: Promise<unknown>;
  /** The keys that each append which has not begun sets or removes. */
  readonly waiting: Set<readonly string[]>;
}

const appends = new WeakMap<object, Appends>();

/**
 * Appends to a session object once the earlier appends to it are over: results in another order than the events would set the
 * object back. Objects with the same `state` count as one.
 * @param names of the keys that the event sets or removes
 * @param append gets a function that returns the keys that waiting events set or remove: who made these has not seen what this
 * append brings
 */
export function inOrder<T>(
  state: object,
  names: readonly string[],
  append: (namesBehind: () => string[]) => Promise<T>,
): Promise<T> {
  const known = appends.get(state) ?? { last: Promise.resolve(), waiting: new Set() };
  appends.set(state, known);
  const { last, waiting } = known;
  waiting.add(names);
  const result = last.then(() => {
    waiting.delete(names);
    return append(() => [...waiting].flat());
  });
  known.last = result.catch(() => {});
  return result;
}

/** Brings a session object up to date after its event was stored: values, versions, event and time. */
export function advanceSession(
  session: SessionLike,
  event: Event,
  { at, seq, set, deleted, versions }: StoredOutcome,
): void {
  adoptState(session.state, { set, deleted });
  addEvents(session, [event]);
  session.lastUpdateTime = secondsOf(at);
  // Without all versions, an object still has only its time.
  if (session.seen !== undefined) session.seen = { seq, versions: { ...session.seen.versions, ...versions } };
}

/**
 * Makes a session object the stored session, including what others did meanwhile. `temp:` values stay, and changes that are not
 * stored yet.
 * @param appended `event` was appended; `versions` are those of the keys that it wrote, `namesBehind` the keys that waiting events
 * set or remove
 */
export function refresh(
  session: SessionLike,
  stored: StoredStateSession,
  { event, versions = {}, namesBehind }: { event: Event; versions?: Seen['versions']; namesBehind: readonly string[] },
): void {
  const values = Object.fromEntries(valuesOf(stored));
  const gone = Object.keys(session.state).filter((name) => !Object.hasOwn(values, name) && !name.startsWith('temp:'));
  const kept = adoptState(session.state, { set: values, deleted: gone });
  addEvents(
    session,
    stored.events.map((each) => (each.data.event['id'] === event.id ? event : eventOf(each))),
  );
  session.lastUpdateTime = secondsOf(stored.at);
  session.seen = holdBack(seenOf(stored), [...kept, ...namesBehind], { ...session.seen?.versions, ...versions });
}

/** Adds events that the object does not have yet. */
export function addEvents<E extends { id: string }>(session: { events: E[] }, events: readonly E[]): void {
  const known = new Set(session.events.map(({ id }) => id));
  session.events.push(...events.filter(({ id }) => !known.has(id)));
}
