import { canonicalJson } from '../../domain/canonical-json.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { StateChange } from '../../domain/state-changes.ts';
import {
  fullName,
  LASTING_SCOPES,
  type LastingScope,
  MAX_STATE_KEYS,
  MAX_STATE_SCOPE_BYTES,
  scopeFull,
  staleSession,
  StateError,
} from '../../domain/state-keys.ts';
import { byteLength, type Json } from '../../domain/text.ts';
import type { NewStateEvent, SeenSession, StateSessionKey, StoredStateSession } from '../../store/state.ts';
import { type Appended, SessionService, type SessionStore } from './service.ts';
import type { StoredOutcome } from './session.ts';

/** Sessions in this process only. Behaves like `PostgresSessionService`. */
export class InMemorySessionService extends SessionService {
  constructor() {
    super(new MemoryStore());
  }
}

interface Value {
  value: Json;
  version: number;
  bytes: number;
}

interface MemorySession {
  sessionId: string;
  at: number;
  events: StoredStateSession['events'];
}

class MemoryStore implements SessionStore {
  /** By app, user and id. */
  private readonly sessions = new Map<string, MemorySession & { key: StateSessionKey }>();
  /** By app, scope and owner; then by key. */
  private readonly scopes = new Map<string, Map<string, Value>>();
  private version = 0;

  create(
    { app, user, alias }: { app: string; user: string; alias: string | null },
    { event, changes }: Pick<NewStateEvent, 'event' | 'changes'>,
  ): Promise<StoredStateSession | undefined> {
    return settled(() => {
      const sessionId = newId('ses');
      const key = { app, user, id: alias ?? sessionId };
      if (this.sessions.has(idOf(key))) return undefined;
      const session = { key, sessionId, at: 0, events: [] };
      const done = this.change(session, key, changes);
      this.sessions.set(idOf(key), session);
      this.log(session, event, done);
      session.events = [];
      return this.read(session, key, 0, null, null);
    });
  }

  get(key: StateSessionKey, { recent, after }: { recent: number | null; after: number | null }) {
    return settled(() => {
      const session = this.sessions.get(idOf(key));
      return session && this.read(session, key, 0, recent, after);
    });
  }

  append(key: StateSessionKey, { event, changes }: NewStateEvent, seen: SeenSession): Promise<Appended> {
    return settled(() => {
      const session = this.sessions.get(idOf(key));
      if (session === undefined) {
        throw new PerdureError('SessionNotFound', 'session: expected an existing session of this app and user');
      }
      const known = session.events.find(({ data }) => data.event['id'] === event['id']);
      if (known !== undefined) {
        if (canonicalJson({ ...known.data.event, timestamp: 0 }) !== canonicalJson({ ...event, timestamp: 0 })) {
          throw new PerdureError(
            'EventConflict',
            `event.id: the session has another event ${JSON.stringify(event['id'])}`,
          );
        }
        return { repeat: true as const, fresh: this.read(session, key, seen.seq, null, null) };
      }
      const isCurrent = session.at === seen.at;
      const fenced = seen.versions ? changes : changes.map((change) => fencedByTime(change, isCurrent));
      const done = this.log(session, event, this.change(session, key, fenced));
      return isCurrent ? done : { ...done, fresh: this.read(session, key, seen.seq, null, null) };
    });
  }

  list(
    { app, user }: { app: string; user: string | null },
    { limit, offset, order }: { limit: number | null; offset: number; order: 'asc' | 'desc' | null },
  ) {
    return settled(() => {
      const sign = order === 'asc' ? 1 : order === 'desc' ? -1 : 0;
      const found = [...this.sessions.values()]
        .filter(({ key }) => key.app === app && (user === null || key.user === user))
        .toSorted((a, b) => sign * (a.at - b.at) || (a.sessionId < b.sessionId ? -1 : 1));
      const items = found.map(({ key, at }) => ({ id: key.id, user_id: key.user, at }));
      return { items: items.slice(offset, limit === null ? undefined : offset + limit), total: items.length };
    });
  }

  delete(key: StateSessionKey): Promise<void> {
    return settled(() => {
      const session = this.sessions.get(idOf(key));
      if (session === undefined) return;
      this.sessions.delete(idOf(key));
      this.scopes.delete(scopeId(key.app, 'session', session.sessionId));
    });
  }

  private scope(
    session: MemorySession,
    { app, user }: Pick<StateSessionKey, 'app' | 'user'>,
    scope: LastingScope,
  ): Map<string, Value> {
    const owner = scope === 'session' ? session.sessionId : scope === 'user' ? user : '';
    const id = scopeId(app, scope, owner);
    const values = this.scopes.get(id) ?? new Map<string, Value>();
    this.scopes.set(id, values);
    return values;
  }

  /** Carries out changes, all or none. */
  private change(
    session: MemorySession,
    key: StateSessionKey,
    changes: readonly StateChange[],
  ): Omit<StoredOutcome, 'at' | 'seq'> {
    const after = new Map<LastingScope, Map<string, Value>>();
    const done = { set: {} as Record<string, Json>, deleted: [] as string[], versions: {} as Record<string, number> };
    for (const change of changes) {
      const scope = change.scope as LastingScope;
      const values = after.get(scope) ?? new Map(this.scope(session, key, scope));
      after.set(scope, values);
      this.changeOne(values, change, done);
    }
    for (const [scope, values] of after) {
      const isSet = changes.some(
        (change) => change.scope === scope && (change.value !== undefined || change.increment !== undefined),
      );
      const bytes = [...values.values()].reduce((sum, value) => sum + value.bytes, 0);
      if (isSet && (values.size > MAX_STATE_KEYS || bytes > MAX_STATE_SCOPE_BYTES)) throw scopeFull(scope);
    }
    for (const [scope, values] of after) {
      const stored = this.scope(session, key, scope);
      stored.clear();
      for (const [name, value] of values) stored.set(name, value);
    }
    return done;
  }

  private changeOne(
    values: Map<string, Value>,
    change: StateChange,
    done: Omit<StoredOutcome, 'at' | 'seq'> & { deleted: string[] },
  ): void {
    const name = fullName(change);
    const stored = values.get(change.key);
    if (change.seen !== undefined && change.seen !== (stored?.version ?? 0)) throw staleSession(name);
    if (change.increment === undefined && change.value === undefined) {
      values.delete(change.key);
      done.deleted.push(name);
      done.versions[name] = 0;
      return;
    }
    const value = change.increment === undefined ? (change.value as Json) : sumOf(stored, change.increment, name);
    const version = (this.version += 1);
    const bytes = change.bytes ?? byteLength(name) + byteLength(JSON.stringify(value));
    values.set(change.key, { value, version, bytes });
    done.set[name] = value;
    done.versions[name] = version;
  }

  private log(
    session: MemorySession,
    event: Record<string, Json>,
    done: Omit<StoredOutcome, 'at' | 'seq'>,
  ): StoredOutcome {
    session.at = Math.max(Date.now() * 1_000, session.at + 1);
    const seq = (session.events.at(-1)?.seq ?? 0) + 1;
    const data = { event, version: (this.version += 1), set: done.set, deleted: [...done.deleted] };
    session.events.push({ seq, at: session.at / 1_000_000, data });
    return structuredClone({ ...done, at: session.at, seq });
  }

  private read(
    session: MemorySession,
    key: StateSessionKey,
    afterSeq: number,
    recent: number | null,
    after: number | null,
  ): StoredStateSession {
    const state = LASTING_SCOPES.flatMap((scope) =>
      [...this.scope(session, key, scope)].map(([name, { value, version }]) => ({ scope, key: name, value, version })),
    );
    const last =
      after === null ? -1 : session.events.findLastIndex(({ data }) => Number(data.event['timestamp']) < after);
    const events = session.events.slice(last + 1).filter(({ seq }) => seq > afterSeq);
    const newest = recent === null ? events : events.slice(-recent);
    const { sessionId, at } = session;
    const seq = session.events.at(-1)?.seq ?? 0;
    return structuredClone({ session_id: sessionId, at, seq, state, incomplete: [], events: newest });
  }
}

/** Runs synchronously, so that nothing happens in between, and answers with a promise. */
async function settled<T>(work: () => T): Promise<T> {
  return work();
}

function idOf({ app, user, id }: StateSessionKey): string {
  return JSON.stringify([app, user, id]);
}

function scopeId(app: string | null, scope: LastingScope, owner: string): string {
  return JSON.stringify([app, scope, owner]);
}

/** The fence of a writer that knows no versions (append_state_event). */
function fencedByTime(change: StateChange, isCurrent: boolean): StateChange {
  const isFree = change.increment !== undefined || (isCurrent && change.scope === 'session');
  return isFree ? change : { ...change, seen: 0 };
}

function sumOf(stored: Value | undefined, by: number, name: string): number {
  const value = stored === undefined ? 0 : stored.value;
  if (typeof value !== 'number')
    throw new StateError(`stateIncrements[${JSON.stringify(name)}]`, 'a key that holds a number');
  const sum = value + by;
  if (Number.isFinite(sum)) return sum;
  throw new StateError('stateIncrements', 'sums that are finite numbers');
}
