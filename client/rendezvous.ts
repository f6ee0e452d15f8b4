import type { Bus, BusEvent } from '../bus/bus.ts';
import type { OpenSession, RendezvousEvent } from '../domain/rendezvous.ts';
import type { Db } from '../store/db.ts';
import { ownersOf } from '../store/rendezvous.ts';
import type { ClientLog } from './log.ts';
import { type Known, UserFeed } from './user-feed.ts';

const READ_ALL_MS = 15_000;
/** Sessions whose owner is not known yet wait so long for company. */
const ASK_MS = 20;
const KNOWN_OWNERS = 50_000;
/** When the bus was away every user's sessions are read again, spread over this time. */
const SPREAD_MS = 500;
/** A reader looks up now and then even if nothing wakes it. */
const LOOK_UP_MS = 60_000;

interface Deps {
  db: Db;
  bus: Bus;
  log: ClientLog;
  readAllMs?: number;
}

/**
 * Tells tabs of their user's sessions. One listener on the bus and one feed a user for all of a process, so that what
 * happens to a session costs one reading however many tabs look on, and none where nobody does. A pointer names the
 * session only: whose it is never changes, and is asked once.
 */
export class Rendezvous {
  private readonly deps: Deps;
  private readonly feeds = new Map<string, UserFeed>();
  private readonly owners = new Map<string, string>();
  private readonly ownerless = new Set<string>();
  private readonly leaveBus: () => void;
  private asking: NodeJS.Timeout | undefined;

  constructor(deps: Deps) {
    this.deps = deps;
    this.leaveBus = deps.bus.subscribe((event) => this.hear(event));
  }

  /** Each reading's events together; ends with the signal or when this closes. */
  async *follow(userId: string, options: { signal?: AbortSignal }): AsyncGenerator<RendezvousEvent[], void, void> {
    const feed = this.feedOf(userId);
    const reader = feed.join();
    let told: Known | undefined;
    try {
      while (options.signal?.aborted !== true && !feed.isOver) {
        if (reader.isReady) {
          const { known } = feed;
          const events = told === undefined ? beginning(known) : changes(told, known);
          told = known;
          if (events.length > 0) yield events;
        }
        await reader.bell.wait(LOOK_UP_MS, options.signal);
      }
      if (feed.failure !== undefined) throw feed.failure;
    } finally {
      if (feed.leave(reader) && this.feeds.get(userId) === feed) this.feeds.delete(userId);
    }
  }

  close(): void {
    this.leaveBus();
    clearTimeout(this.asking);
    for (const feed of this.feeds.values()) feed.end();
    this.feeds.clear();
  }

  private feedOf(userId: string): UserFeed {
    const found = this.feeds.get(userId);
    if (found !== undefined && !found.isOver) return found;
    const { db, log, readAllMs = READ_ALL_MS } = this.deps;
    const onFailure = (error: unknown) => log.warn({ err: error }, "a user's sessions could not be read");
    const feed = new UserFeed({ db, userId, readAllMs, onFailure });
    this.feeds.set(userId, feed);
    return feed;
  }

  private hear(event: BusEvent): void {
    if (this.feeds.size === 0) return;
    if (event.kind === 'reconnected') return this.readAll();
    if (event.kind !== 'status') return;
    const owner = this.owners.get(event.session);
    if (owner !== undefined) return this.feeds.get(owner)?.read(event.session);
    this.ownerless.add(event.session);
    this.asking ??= setTimeout(() => void this.askOwners(), ASK_MS);
  }

  private readAll(): void {
    for (const feed of this.feeds.values()) setTimeout(() => feed.readAll(), Math.random() * SPREAD_MS).unref();
  }

  private async askOwners(): Promise<void> {
    const sessions = [...this.ownerless];
    this.ownerless.clear();
    this.asking = undefined;
    try {
      for (const { session_id, user_id } of await ownersOf(this.deps.db, sessions)) {
        if (this.owners.size >= KNOWN_OWNERS) this.owners.clear();
        this.owners.set(session_id, user_id);
        this.feeds.get(user_id)?.read(session_id);
      }
    } catch (error) {
      this.deps.log.warn({ err: error }, 'whose sessions have changed could not be read');
      this.readAll();
    }
  }
}

function beginning(known: Known): RendezvousEvent[] {
  const newestFirst = [...known.values()].toSorted((a, b) => (a.session_id < b.session_id ? 1 : -1));
  return [...newestFirst.map((session) => eventOf('session_open', session)), { event: 'ready' }];
}

function changes(told: Known, known: Known): RendezvousEvent[] {
  if (told === known) return [];
  const gone = [...told.values()].filter(({ session_id }) => !known.has(session_id));
  const changed = [...known.values()].filter((session) => told.get(session.session_id) !== session);
  return [
    ...gone.map((session) => eventOf('session_close', session)),
    ...changed.map((session) => eventOf(told.has(session.session_id) ? 'session_update' : 'session_open', session)),
  ];
}

function eventOf(event: Exclude<RendezvousEvent['event'], 'ready'>, session: OpenSession): RendezvousEvent {
  return { event, ...session };
}
