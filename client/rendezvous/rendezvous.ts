import type { Bus, BusEvent } from '../../bus/bus.ts';
import type { OpenSession, RendezvousEvent } from '../../domain/rendezvous.ts';
import type { Db } from '../../store/db.ts';
import { changedWithin, ownersOf } from '../../store/rendezvous.ts';
import type { ClientLog } from '../log.ts';
import { AutoResetEvent } from '../wait/auto-reset-event.ts';
import type { Limit } from '../wait/limiter.ts';
import { type KnownSessions, RendezvousFeed } from './rendezvous-feed.ts';

/** Interval of the check for changes whose pointers were lost. */
const CHECK_MS = 15_000;
/** Maximum time between a change's timestamp and the commit that makes it visible. */
const COMMIT_MS = 15_000;
/** Maximum number of users per statement, to keep statements short. */
const BATCH = 50;
/** Unknown owners of sessions are collected for this long and looked up together. */
const OWNERS_MS = 20;
const MAX_KNOWN_OWNERS = 50_000;

interface Deps {
  db: Db;
  bus: Bus;
  log: ClientLog;
  /** Limits concurrent statements. */
  limit?: Limit;
  checkMs?: number;
}

/**
 * Streams each user's sessions to the user's tabs. A process has one bus listener and one feed per user, so a change
 * costs one reading however many tabs follow it, and none without a follower. A pointer names only the session; its
 * owner never changes and is looked up once. Changes whose pointers were lost are found by one periodic statement for
 * all users: the sessions changed since the last such statement, and the known ones that have been erased.
 */
export class Rendezvous {
  private readonly deps: Required<Deps>;
  private readonly feeds = new Map<string, RendezvousFeed>();
  private readonly owners = new Map<string, string>();
  private readonly withoutOwner = new Set<string>();
  private readonly unsubscribe: () => void;
  private readonly closing = new AbortController();
  private readonly wakeCheck = new AutoResetEvent();
  private isChecking = false;
  private lookUp: NodeJS.Timeout | undefined;

  constructor(deps: Deps) {
    this.deps = { limit: (work) => work(), checkMs: CHECK_MS, ...deps };
    this.unsubscribe = deps.bus.subscribe((event) => this.onEvent(event));
  }

  /** Yields the events of each reading as one batch; ends with the signal or with `close`. */
  async *follow(userId: string, options: { signal?: AbortSignal }): AsyncGenerator<RendezvousEvent[], void, void> {
    const feed = this.feedOf(userId);
    const reader = feed.join();
    let sent: KnownSessions | undefined;
    try {
      while (options.signal?.aborted !== true && !feed.isOver && !this.closing.signal.aborted) {
        if (reader.isReady) {
          const { known } = feed;
          const events = sent === undefined ? beginning(known) : changes(sent, known);
          sent = known;
          if (events.length > 0) yield events;
        }
        await reader.wake.wait(undefined, options.signal);
      }
      if (feed.failure !== undefined) throw feed.failure;
    } finally {
      if (feed.leave(reader) && this.feeds.get(userId) === feed) this.feeds.delete(userId);
    }
  }

  close(): void {
    this.unsubscribe();
    this.closing.abort();
    clearTimeout(this.lookUp);
    for (const feed of this.feeds.values()) feed.end();
    this.feeds.clear();
  }

  private feedOf(userId: string): RendezvousFeed {
    const found = this.feeds.get(userId);
    if (found !== undefined && !found.isOver) return found;
    const { db, log, limit } = this.deps;
    const onFailure = (error: unknown) => log.warn({ err: error }, "a user's sessions could not be read");
    const feed = new RendezvousFeed({ db, userId, limit, onFailure });
    this.feeds.set(userId, feed);
    if (!this.isChecking) void this.keepChecking();
    return feed;
  }

  private onEvent(event: BusEvent): void {
    if (this.feeds.size === 0) return;
    if (event.kind === 'reconnected') return this.wakeCheck.set();
    if (event.kind === 'status') this.changed(event.session, this.owners.get(event.session));
  }

  private changed(session: string, owner: string | undefined): void {
    if (owner !== undefined) return this.feeds.get(owner)?.read(session);
    this.withoutOwner.add(session);
    this.lookUp ??= setTimeout(() => void this.lookUpOwners(), OWNERS_MS);
  }

  private async lookUpOwners(): Promise<void> {
    const { db, log, limit } = this.deps;
    const sessions = [...this.withoutOwner];
    this.withoutOwner.clear();
    this.lookUp = undefined;
    try {
      const erased = new Set(sessions);
      for (const { session_id, user_id } of await limit(() => ownersOf(db, sessions), this.closing.signal)) {
        if (this.owners.size >= MAX_KNOWN_OWNERS) this.owners.clear();
        this.owners.set(session_id, user_id);
        this.changed(session_id, user_id);
        erased.delete(session_id);
      }
      for (const id of erased) for (const feed of this.feeds.values()) if (feed.known.has(id)) feed.read(id);
    } catch (error) {
      if (this.closing.signal.aborted) return;
      log.warn({ err: error }, 'the owners of changed sessions could not be read');
      this.wakeCheck.set();
    }
  }

  /**
   * Checks for changes periodically while there are followers. After a failed check the next one covers its time, too.
   */
  private async keepChecking(): Promise<void> {
    const { log, checkMs } = this.deps;
    const { signal } = this.closing;
    this.isChecking = true;
    let since = performance.now();
    while (this.feeds.size > 0 && !signal.aborted) {
      await this.wakeCheck.wait(checkMs, signal);
      const from = performance.now();
      try {
        await this.check(from - since + COMMIT_MS);
        since = from;
      } catch (error) {
        if (signal.aborted) break;
        log.warn({ err: error }, "changes of users' sessions could not be read");
      }
    }
    this.isChecking = false;
  }

  private async check(withinMs: number): Promise<void> {
    const { db, limit } = this.deps;
    const users = [...this.feeds.keys()];
    for (let at = 0; at < users.length; at += BATCH) {
      const batch = users.slice(at, at + BATCH);
      const known = batch.flatMap((user_id) =>
        [...(this.feeds.get(user_id)?.known.keys() ?? [])].map((session_id) => ({ session_id, user_id })),
      );
      const found = await limit(() => changedWithin(db, batch, withinMs, known), this.closing.signal);
      for (const { session_id, user_id } of found) this.feeds.get(user_id)?.read(session_id);
    }
  }
}

function beginning(known: KnownSessions): RendezvousEvent[] {
  const newestFirst = [...known.values()].toSorted((a, b) => (a.session_id < b.session_id ? 1 : -1));
  return [...newestFirst.map((session) => eventOf('session_open', session)), { event: 'ready' }];
}

function changes(sent: KnownSessions, known: KnownSessions): RendezvousEvent[] {
  if (sent === known) return [];
  const gone = [...sent.values()].filter(({ session_id }) => !known.has(session_id));
  const changed = [...known.values()].filter((session) => sent.get(session.session_id) !== session);
  return [
    ...gone.map((session) => eventOf('session_close', session)),
    ...changed.map((session) => eventOf(sent.has(session.session_id) ? 'session_update' : 'session_open', session)),
  ];
}

function eventOf(event: Exclude<RendezvousEvent['event'], 'ready'>, session: OpenSession): RendezvousEvent {
  return { event, ...session };
}
