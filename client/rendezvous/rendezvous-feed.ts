import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../bus/backoff.ts';
import { canonicalJson } from '../../domain/canonical-json.ts';
import type { OpenSession } from '../../domain/rendezvous.ts';
import type { Db } from '../../store/db.ts';
import { newestOpen, openAmong } from '../../store/rendezvous.ts';
import { AutoResetEvent } from '../wait/auto-reset-event.ts';
import type { Limit } from '../wait/limiter.ts';

/** A new reader gets this many sessions, the newest ones. */
const FIRST_TOLD = 200;
/** Maximum number of sessions kept; the oldest are dropped. */
const MAX_KNOWN = 1_000;
/** Minimum time between two readings of a user's sessions. */
const READ_EVERY_MS = 200;
/** A feed whose readings have failed for this long ends with the error. */
const GIVE_UP_MS = 60_000;

/** The open sessions of a user, by id. Replaced when something changes, never mutated: readers compare. */
export type KnownSessions = ReadonlyMap<string, OpenSession>;

/** A follower of a feed. */
export interface FeedReader {
  wake: AutoResetEvent;
  /** True: all sessions have been read since it joined. */
  isReady: boolean;
}

export interface FeedOptions {
  db: Db;
  userId: string;
  /** Limits concurrent statements. */
  limit: Limit;
  onFailure: (error: unknown) => void;
}

/**
 * The open sessions of one user, shared by all of the user's readers in this process:
 *
 * 1. Reads sessions that may have changed, or all when a reader joins; one reading at a time, at most one per 200 ms.
 * 2. Sessions requested during a reading, and those of a failed reading, are read by the next one.
 * 3. `known` is replaced only if something differs; then every reader is woken.
 */
export class RendezvousFeed {
  known: KnownSessions = new Map();
  /** Why the feed has ended, if Postgres could not be read for a minute. */
  failure: Error | undefined;
  private due: Set<string> | 'all' = new Set();
  private readonly options: FeedOptions;
  private readonly wake = new AutoResetEvent();
  private readonly readers = new Set<FeedReader>();
  private readonly ended = new AbortController();

  constructor(options: FeedOptions) {
    this.options = options;
    void this.run();
  }

  get isOver(): boolean {
    return this.ended.signal.aborted;
  }

  join(): FeedReader {
    const reader = { wake: new AutoResetEvent(), isReady: false };
    this.readers.add(reader);
    this.due = 'all';
    this.wake.set();
    return reader;
  }

  /** @returns true if it was the last reader; the feed has ended then */
  leave(reader: FeedReader): boolean {
    this.readers.delete(reader);
    if (this.readers.size > 0) return false;
    this.end();
    return true;
  }

  /** A session may have changed. */
  read(sessionId: string): void {
    if (this.due !== 'all') this.due.add(sessionId);
    this.wake.set();
  }

  end(): void {
    this.ended.abort();
    this.wakeReaders();
  }

  private async run(): Promise<void> {
    const { signal } = this.ended;
    const { limit, onFailure } = this.options;
    let failures = 0;
    let failingSince = 0;
    while (!signal.aborted) {
      await this.wake.wait(undefined, signal);
      if (signal.aborted) return;
      const { due } = this;
      this.due = new Set();
      try {
        await limit(() => this.readDue(due), signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        onFailure(error);
        if (failures === 0) failingSince = performance.now();
        failures += 1;
        if (performance.now() - failingSince > GIVE_UP_MS) return this.fail(error);
        this.putBack(due);
      }
      const pause = failures > 0 ? backoffMs(failures) : READ_EVERY_MS;
      await delay(pause, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  private fail(error: unknown): void {
    this.failure = error instanceof Error ? error : new Error(String(error));
    this.end();
  }

  private putBack(due: Set<string> | 'all'): void {
    if (due === 'all' || this.due === 'all') this.due = 'all';
    else for (const id of due) this.due.add(id);
    this.wake.set();
  }

  private async readDue(due: Set<string> | 'all'): Promise<void> {
    const { db, userId } = this.options;
    const waiting = due === 'all' ? [...this.readers].filter((reader) => !reader.isReady) : [];
    const rows = due === 'all' ? await this.allRows() : await openAmong(db, userId, [...due]);
    const kept = due === 'all' ? [] : [...this.known].filter(([id]) => !due.has(id));
    const next = new Map([...kept, ...rows.map((row) => [row.session_id, this.sessionOf(row)] as const)]);
    for (const id of [...next.keys()].toSorted().slice(0, Math.max(0, next.size - MAX_KNOWN))) next.delete(id);
    const isSame = next.size === this.known.size && [...next].every(([id, session]) => this.known.get(id) === session);
    if (!isSame) this.known = next;
    for (const reader of waiting) reader.isReady = true;
    if (!isSame || waiting.length > 0) this.wakeReaders();
  }

  /** The newest open sessions, and other known sessions that are still open. */
  private async allRows(): Promise<OpenSession[]> {
    const { db, userId } = this.options;
    const rows = await newestOpen(db, userId, FIRST_TOLD);
    const found = new Set(rows.map((row) => row.session_id));
    const others = [...this.known.keys()].filter((id) => !found.has(id));
    return others.length === 0 ? rows : [...rows, ...(await openAmong(db, userId, others))];
  }

  /** The same object as before if nothing has changed. */
  private sessionOf(session: OpenSession): OpenSession {
    const before = this.known.get(session.session_id);
    return before && canonicalJson(before) === canonicalJson(session) ? before : session;
  }

  private wakeReaders(): void {
    for (const { wake } of this.readers) wake.set();
  }
}
